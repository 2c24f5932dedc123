"""What the page is made of: numbers that add up, sizes that stay small, names that stay names."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from fedmerit.errors import DataError, LedgerError
from fedmerit.intervals import mean_half_width
from fedmerit.ledger import Ledger
from fedmerit.report import RunView, open_source, write_report
from fedmerit.report.cliques import clique_order
from fedmerit.report.data import page_data
from fedmerit.report.page import embedded
from fedmerit.report.watch import watch
from fedmerit.simulation.results import ResultFiles
from tests.report.builders import HOSTILE, OTHER_HOSTILE, make_records


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
    assert found.kinds == ["application/json", None, None]  # the data, the library, our script
    assert all(address.startswith("#") for address in found.addresses)
    assert not found.tags & {"link", "iframe", "img", "object", "form"}
    policy = re.search(r'Security-Policy" content="([^"]*)"', out.read_text())[1]
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy  # falls back to none
    assert policy.count("'sha256-") == 2
    assert "unsafe-eval" not in policy


@pytest.mark.parametrize("name", [HOSTILE, *OTHER_HOSTILE, "\ud800", "\u2028", "<!--", "]]>"])
def test_no_name_can_end_the_block_it_stands_in(name):
    text = embedded({"name": name})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text.encode()) == {"name": name}


def test_two_hundred_clients_and_rounds_stay_below_eight_megabytes(tmp_path):
    view = RunView("large", make_records(200, 200))
    assert write_report(view, tmp_path / "large.html") < 8_000_000


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
    for name in ("mean", "half", "at", "score", "weight", "why", "evidence", "flagged"):
        assert [c[name] for c in page_data(ledger)["clients"]] == [
            c[name] for c in page_data(folder)["clients"]
        ]
    assert (ledger.chain.problem, folder.chain) == (None, None)
    with (tmp_path / "run" / "clients.csv").open("a") as file:
        file.write("7,hospital-0,hon")  # a round that is being written
    assert len(open_source(tmp_path / "run").records) == len(records)


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
    path.write_bytes(path.read_bytes().replace(b"only with a clique", b"only with a cliquE"))
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
