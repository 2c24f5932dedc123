"""What the page is made of: numbers that add up, sizes that stay small, names that stay names."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from fedmerit.errors import CheckpointError, DataError, LedgerError
from fedmerit.flags import Flag, Kind
from fedmerit.intervals import mean_half_width
from fedmerit.ledger import Ledger
from fedmerit.report import RunView, open_source, write_report
from fedmerit.report.cliques import clique_order
from fedmerit.report.data import page_data
from fedmerit.report.page import embedded
from fedmerit.report.watch import watch
from fedmerit.simulation.results import ResultFiles
from fedmerit.types import ClientRecord, Rejection, RoundRecord
from tests.report.builders import HOSTILE, HOSTILE_LABEL, OTHER_HOSTILE, make_records


def write_ledger(path: Path, records, runs=1) -> Path:
    with Ledger.open(path) as ledger:
        for number in range(runs):
            ledger.start_run({"seed": number, "rule": "<b>"}, "0.1.0")
            for record in records:
                ledger.append(record)
    return path


class Scripts(HTMLParser):
    """Collects script elements and every address that is named."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds, self.addresses, self.tags = [], [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "script":
            self.kinds.append(dict(attrs).get("type"))
        self.addresses += [value for name, value in attrs if name in {"src", "href", "action"}]


def test_the_page_holds_everything_and_names_nothing_outside(tmp_path):
    out = tmp_path / "new" / "report.html"
    view = RunView(HOSTILE, make_records(), {HOSTILE: HOSTILE}, HOSTILE)
    assert write_report(view, out) == out.stat().st_size
    found = Scripts()
    found.feed(out.read_text(encoding="utf-8"))
    assert found.kinds == ["application/json", None]  # the data, our script
    assert all(address.startswith("#") or address == "/" for address in found.addresses)
    assert not found.tags & {"link", "iframe", "img", "object", "form"}
    policy = re.search(r'Security-Policy" content="([^"]*)"', out.read_text())[1]
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy  # falls back to none
    assert policy.count("'sha256-") == 1
    assert "unsafe-eval" not in policy


@pytest.mark.parametrize(
    "name", [HOSTILE, HOSTILE_LABEL, *OTHER_HOSTILE, "\ud800", "\u2028", "<!--", "]]>"]
)
def test_no_name_can_end_the_block_it_stands_in(name):
    text = embedded({"name": name})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text.encode()) == {"name": name}


def test_the_page_is_small(tmp_path):
    """Sent by mail: the demo's size, and 200 clients over 200 rounds."""
    assert write_report(RunView("demo", make_records(20, 20)), tmp_path / "demo.html") < 150_000
    assert write_report(RunView("large", make_records(200, 200)), tmp_path / "l.html") < 4_000_000


def test_numbers_are_those_of_the_records():
    records = make_records()
    data = page_data(RunView("run", records))
    assert data["rounds"] == [1, 2, 3, 4, 5, 6]
    means = [client["mean"] for client in data["clients"] if client["mean"] is not None]
    assert means == sorted(means, reverse=True)
    best = data["clients"][0]
    scores = [c.score for r in records for c in r.clients if c.client == best["name"]]
    assert best["mean"] == pytest.approx(math.fsum(scores) / 6, rel=1e-4)
    assert best["half"] == pytest.approx(mean_half_width(scores), rel=1e-4)
    assert sum(c["paid"] or 0 for c in data["clients"]) == sum(
        c.reward for r in records for c in r.clients
    )
    rider = next(c for c in data["clients"] if data["groups"][c["group"]] == "rider")
    assert rider["kinds"] == [("explained by public information", 6)]
    assert data["reasons"][rider["why"][0] - 1][0].endswith("(91%)")
    late = next(c for c in data["clients"] if c["name"] == "late")
    assert (late["mean"], late["rejected"], late["at"]) == (None, 1, [])


def test_no_weight_and_no_pay_are_told_with_their_kind():
    clients = (
        ClientRecord("copy", 0.1, 0.5, flag=Flag(Kind.COPY, twin="ann"), reward=5),
        ClientRecord("small", 0.1, 0.5, flag=Flag(Kind.UNPAID, "below 7"), reward=0),
        ClientRecord("open", 0.0, 0.0, flag=Flag(Kind.UNDECIDED), reward=0),
        ClientRecord("late", math.nan, math.nan, reward=0),  # its reply was rejected
        ClientRecord("mute", 0.0, 0.0, reward=0),
        ClientRecord("fine", 0.2, 0.1, reward=9),
    )
    record = RoundRecord(1, clients, (Rejection("late", "too slow", Kind.ABSENT),))
    data = page_data(RunView("run", [record]))
    told = {
        client["name"]: [data["reasons"][why - 1][0] for why in client["why"]]
        for client in data["clients"]
    }
    assert told == {
        "copy": ["near-copy of client ann"],
        "small": ["the reward rule pays nothing for this score: below 7"],
        "open": ["undecided"],
        "late": ["no reply: too slow"],
        "mute": ["no reason recorded"],
        "fine": [],
    }
    # Only the first accuses; the others are not counted as flags.
    assert {c["name"]: c["flagged"] for c in data["clients"] if c["flagged"]} == {"copy": 1}
    assert [kind for kind, accuses in data["kinds"] if accuses] == ["near-copy"]
    assert data["kinds"][data["reasons"][0][1]][0] == data["reasons"][0][0].split(" of ")[0]
    assert [words for _, _, words in data["rejected"]] == ["no reply: too slow"]


def test_the_page_knows_the_last_label_of_a_client():
    rounds = [
        RoundRecord(n, (ClientRecord("a", 0.1, 1.0, label=label),))
        for n, label in enumerate(("old", "new", None), 1)
    ]
    (client,) = page_data(RunView("run", rounds))["clients"]
    assert (client["name"], client["label"]) == ("a", "new")


def test_without_behaviours_groups_are_by_flags():
    data = page_data(RunView("run", make_records(known=False)))
    assert data["groupsAre"] == "flags"
    assert data["groups"] == ["never flagged", "flagged often"]


def test_a_clique_stands_in_one_block(rng):
    clients, clique = 30, [3, 11, 12, 25]
    matrix = rng.normal(0.05, 0.02, size=(clients, clients))
    matrix = (matrix + matrix.T) / 2
    matrix[np.ix_(clique, clique)] = 0.6
    matrix[4, :] = matrix[:, 4] = np.nan
    order = clique_order(matrix)
    assert sorted(order) == list(range(clients))
    places = sorted(order.index(client) for client in clique)
    assert places == list(range(places[0], places[0] + 4))


def test_a_ledger_and_a_folder_tell_the_same_scores(tmp_path):
    records = make_records()
    ledger = open_source(write_ledger(tmp_path / "run.ledger", records))
    (tmp_path / "run").mkdir()
    files = ResultFiles(tmp_path / "run")
    files.create()
    for record in records:
        counted = tuple(replace(client, num_examples=5) for client in record.clients)
        files.append(replace(record, clients=counted))
    folder = open_source(tmp_path / "run")
    told = ("mean", "half", "at", "score", "weight", "why", "evidence", "flagged", "label")
    for name in told:
        assert [c[name] for c in page_data(ledger)["clients"]] == [
            c[name] for c in page_data(folder)["clients"]
        ]
    assert [record.rejected for record in folder.records] == [
        record.rejected for record in ledger.records
    ]
    assert (ledger.chain.problem, folder.chain) == (None, None)
    with (tmp_path / "run" / "clients.csv").open("a") as file:
        file.write("7,hospital-0,hon")  # a round that is being written
    assert len(open_source(tmp_path / "run").records) == len(records)


def test_a_folder_tells_the_metric_by_its_own_name(tmp_path):
    files = ResultFiles(tmp_path)
    files.create("auc")
    files.append(RoundRecord(1, (ClientRecord("a", 0.1, 1.0),), metrics={"auc": 0.7, "loss": 0.5}))
    (record,) = open_source(tmp_path).records
    assert record.metrics == {"auc": 0.7, "loss": 0.5}
    assert page_data(open_source(tmp_path))["metrics"] == [["auc", [0.7]], ["loss", [0.5]]]


OLD_ROUNDS = "round,accuracy,loss,clients,rejected,flagged\n1,0.5,0.25,2,1,1\n"
OLD_CLIENTS = """round,client,behaviour,num_examples,score,weight,p_value,epsilon,flagged,reason
1,a,honest,5,0.5,1.0,0.01,,0,
1,b,stale,5,,0.0,0.9,,1,explained by public information (98%)
1,c,,,,,,,0,rejected: the update is not finite
"""


def test_a_folder_of_an_earlier_version_is_read(tmp_path):
    (tmp_path / "rounds.csv").write_text(OLD_ROUNDS)
    (tmp_path / "clients.csv").write_text(OLD_CLIENTS)
    (record,) = open_source(tmp_path).records
    assert record.clients[0] == ClientRecord(
        "a", 0.5, 1.0, p_value=0.01, num_examples=5, behaviour="honest"
    )
    assert record.clients[1].flag == Flag(Kind.EXPLAINED, "98%")
    assert record.rejected == (Rejection("c", "the update is not finite", Kind.REFUSED),)


@pytest.mark.parametrize(
    ("name", "old", "new", "rule"),
    [
        ("clients.csv", "p_value,epsilon", "p_value,eps", "must have the columns round, client"),
        ("rounds.csv", "loss,", "", "got round, accuracy, clients, rejected"),
        ("rounds.csv", OLD_ROUNDS, "", "must have the columns round, accuracy, loss"),
        ("clients.csv", "5,0.5", "five,0.5", "must hold the results of a run: invalid literal"),
    ],
)
def test_a_folder_with_other_columns_is_refused(tmp_path, name, old, new, rule):
    for file, text in (("rounds.csv", OLD_ROUNDS), ("clients.csv", OLD_CLIENTS)):
        (tmp_path / file).write_text(text.replace(old, new) if file == name else text)
    with pytest.raises(DataError, match=rule):
        open_source(tmp_path)


def test_results_of_an_earlier_version_are_continued_with_their_columns(tmp_path):
    (tmp_path / "rounds.csv").write_text(OLD_ROUNDS)
    (tmp_path / "clients.csv").write_text(OLD_CLIENTS)
    flag = Flag(Kind.COPY, twin="b")
    added = RoundRecord(
        2, (ClientRecord("a", 0.5, 1.0, flag=flag),), (), {"accuracy": 1, "loss": 0}
    )
    ResultFiles(tmp_path).append(added)
    assert (tmp_path / "clients.csv").read_text() == (
        OLD_CLIENTS + "2,a,,,0.5,1.0,,,1,near-copy of client b\n"
    )
    first, second = open_source(tmp_path).records
    assert (first.clients[1].flag, second.clients[0].flag) == (Flag(Kind.EXPLAINED, "98%"), flag)
    (tmp_path / "clients.csv").write_text("round,client\n")
    with pytest.raises(CheckpointError, match=r"must have the columns .*twin.* to be continued"):
        ResultFiles(tmp_path).append(added)


def test_the_last_run_of_a_ledger_is_shown_unless_another_is_asked_for(tmp_path):
    path = write_ledger(tmp_path / "run.ledger", make_records(rounds=2), runs=2)
    assert open_source(path).settings["seed"] == 1
    assert open_source(path, 1).settings["seed"] == 0
    with pytest.raises(LedgerError, match="run must be one of 1, 2, got 3"):
        open_source(path, 3)
    with pytest.raises(DataError, match=r"rounds\.csv and clients\.csv"):
        open_source(tmp_path)


def test_a_changed_ledger_is_shown_as_such(tmp_path):
    path = write_ledger(tmp_path / "run.ledger", make_records(rounds=2))
    path.write_bytes(path.read_bytes().replace(b"explained92%", b"explained91%"))
    assert "not what was recorded" in open_source(path).chain.problem


def test_watching_follows_a_run_and_ends_with_a_page_that_stands_still(tmp_path):
    records, path, out = make_records(), tmp_path / "run.ledger", tmp_path / "page.html"
    pages = []

    def wait(seconds):
        assert seconds == 2.5
        step = len(pages)
        if step == 0 and not path.exists():
            write_ledger(path, records[:2])
        elif step == 1:
            with Ledger.open(path) as ledger:
                ledger.resume_run(1)
                ledger.append(records[2])
        elif step == 2:
            raise KeyboardInterrupt

    def written(view, size):
        assert size == out.stat().st_size
        pages.append((len(view.records), '"refresh":2.5' in out.read_text()))

    watch(path, out, run=None, every=2.5, wait=wait, written=written)
    assert pages == [(2, True), (3, True), (3, False)]


def test_values_of_a_panel_are_summed_with_their_errors():
    rounds = [
        RoundRecord(n, (ClientRecord("a", 0.1, 1.0, value=0.25, value_error=0.5),)) for n in (1, 2)
    ]
    (client,) = page_data(RunView("run", rounds))["clients"]
    assert client["worth"] == [0.5, 1.0]
    without = page_data(RunView("run", [RoundRecord(1, (ClientRecord("a", 0.1, 1.0),))]))
    assert without["clients"][0]["worth"] is None


def test_numbers_that_cannot_be_added_up_are_told():
    """Ledgers take no such scores any more; older versions did."""
    records = [RoundRecord(n, (ClientRecord("ann", 1e308, 1.0),)) for n in (1, 2, 3)]
    with pytest.raises(DataError, match="numbers of old cannot be added up"):
        page_data(RunView("old", records))
