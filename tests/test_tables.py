"""Results and ledgers as tables: what a notebook shows, and what data frames hold."""

import math
import re

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot

import fedmerit
from fedmerit.display.tables import MOST_SHOWN, Table, to_html, to_text
from fedmerit.flags import Flag, Kind
from fedmerit.ledger import Ledger
from tests.report.builders import HOSTILE, make_records
from tests.report.test_page import write_ledger

FRAMES = ["to_pandas", "to_polars"]
mpl.use("Agg")


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    pyplot.close("all")


@pytest.fixture
def result(rng):
    """A round of six who work, one who sends noise, and one whose reply is no number."""
    direction = rng.normal(size=2000)
    updates = {f"c{n}": direction + rng.normal(size=2000) for n in range(6)}
    updates |= {HOSTILE: rng.normal(size=2000), "broken": np.full(2000, np.nan)}
    server = fedmerit.Server(np.zeros(2000), reward="positive:budget=1000", seed=0)
    return server.settle(updates=updates)


def rows_of(frame):
    """Rows of either library, nothing as None."""
    rows = frame.to_dicts() if hasattr(frame, "to_dicts") else frame.to_dict("records")
    return [
        {k: None if v is None or (isinstance(v, float) and math.isnan(v)) else v
         for k, v in row.items()}
        for row in rows
    ]  # fmt: skip


@pytest.mark.parametrize("frame", FRAMES)
def test_a_result_is_a_data_frame(result, frame):
    rows = {row["client"]: row for row in rows_of(getattr(result, frame)())}
    assert set(rows) == {*result.scores, "broken"}
    for client, score in result.scores.items():
        assert (rows[client]["score"], rows[client]["weight"]) == (score, result.weights[client])
        assert rows[client]["paid"] == result.payments[client]
    assert rows[HOSTILE]["flagged"]
    assert (rows["broken"]["rejected"], rows["broken"]["score"]) == (True, None)
    assert "finite" in rows["broken"]["flag"]


@pytest.mark.parametrize("frame", FRAMES)
def test_contributions_are_a_data_frame(result, frame):
    found = result.contributions
    rows = rows_of(getattr(found, frame)())
    assert [row["score"] for row in rows] == found.scores.tolist()
    assert [row["p_value"] for row in rows] == found.p_values.tolist()
    assert [row["flagged"] for row in rows] == found.flagged.tolist()


@pytest.mark.parametrize("frame", FRAMES)
def test_a_ledger_is_a_data_frame(tmp_path, frame):
    records = make_records(rounds=2)
    with Ledger.open(write_ledger(tmp_path / "run.ledger", records), read_only=True) as ledger:
        rows = rows_of(getattr(ledger, frame)())
    told = [client for record in records for client in record.clients]
    assert len(rows) == len(told) + 1  # one reply was rejected
    kept = [row for row in rows if not row["rejected"]]
    assert [row["client"] for row in kept] == [client.client for client in told]
    assert [row["score"] for row in kept] == [client.score for client in told]
    assert [row["reward"] for row in kept] == [client.reward for client in told]


def test_notebooks_show_tables_in_which_names_are_text(result, tmp_path):
    with Ledger.open(write_ledger(tmp_path / "run.ledger", make_records()), read_only=True) as book:
        shown = [result._repr_html_(), result.contributions._repr_html_(), book._repr_html_()]
    for text in shown:
        assert text.startswith("<table>")
        assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in shown[0]
    assert "1 runs, 6 rounds" in shown[2]


def test_a_server_shows_totals_with_most_weight_first(rng):
    server = fedmerit.Server(np.zeros(2000), seed=0)
    direction = rng.normal(size=2000)
    updates = {f"c{n}": direction + rng.normal(size=2000) for n in range(5)}
    server.settle(updates=updates | {"noise": rng.normal(size=2000)})
    shown = re.findall(r"<tr><td [^>]*>(.*?)</td>", server._repr_html_())
    assert set(shown) == {*updates, "noise"}
    assert shown[-1] == "noise"


def test_a_long_table_is_cut_and_says_so():
    text = to_html(Table("long", {"n": "int64"}, [{"n": n} for n in range(MOST_SHOWN + 3)]))
    assert text.count("<tr>") == MOST_SHOWN + 1
    assert f"the first {MOST_SHOWN} of {MOST_SHOWN + 3} rows" in text


def test_plots_draw_a_bar_per_client_and_name_who_is_flagged(result, tmp_path):
    axes = result.plot()
    assert len(axes.patches) == len(result.scores)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == sorted(result.scores, key=lambda client: -result.scores[client])
    assert result.flags[HOSTILE].words in axes.texts[-1].get_text()
    axes.figure.savefig(tmp_path / "round.svg")

    assert len(result.contributions.plot().patches) == len(result.scores)


def test_a_name_is_no_formula(tmp_path):
    from fedmerit.display.plots import plot_scores

    axes = plot_scores(["$\\frac{1$"], [0.1], [Flag(Kind.OTHER, "$x^$")])
    axes.figure.savefig(tmp_path / "name.png")
    assert axes.get_yticklabels()[0].get_text() == "$\\frac{1$"


def test_a_result_prints_as_a_table_that_a_hostile_name_cannot_break(result):
    title, head, *rows = str(result).splitlines()
    assert title == "Round 1"
    assert head.split() == ["client", "score", "weight", "paid", "flagged", "flag", "rejected"]
    assert len(rows) == 8
    by_name = {row.split()[0]: row for row in rows}
    assert by_name["c0"].split()[2] == f"{result.weights['c0']:.4f}"
    assert "must be finite" in by_name["broken"]
    assert str(result.contributions).splitlines()[1].split()[0] == "client"


def test_text_has_no_empty_columns_and_says_how_much_it_leaves_out():
    types = {"client": "string", "paid": "int64", "rejected": "bool_"}
    rows = [{"client": f"c{n}", "paid": None, "rejected": False} for n in range(MOST_SHOWN + 1)]
    title, head, *lines = to_text(Table("Who", types, rows)).splitlines()
    assert (title, head) == ("Who", "client")
    assert lines[-1] == f"the first {MOST_SHOWN} of {MOST_SHOWN + 1} rows"
