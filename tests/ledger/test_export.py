import csv
import json
import math
import re
import sys
from pathlib import Path

import pytest

from fedmerit.errors import LedgerError, MissingExtraError, UnknownNameError
from fedmerit.ledger import Ledger
from fedmerit.ledger.export import COLUMNS, export, harmless
from fedmerit.types import ClientRecord, RoundRecord
from tests.ledger.builders import make_ledger, make_record


@pytest.fixture
def ledger(tmp_path: Path):
    path = tmp_path / "run.ledger"
    make_ledger(path, rounds=3)
    with Ledger.open(path, read_only=True) as ledger:
        yield ledger


def test_csv_has_a_row_per_client_and_round(ledger: Ledger, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    assert export(ledger, target, "csv") == 3
    with target.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == 3 * 4
    assert [row["rejected"] for row in rows[:4]] == ["False", "False", "False", "True"]
    assert float(rows[1]["score"]) == make_record(1).clients[1].score
    assert rows[0]["reward"] == ""
    told = [[row[name] for name in ("flagged", "kind", "reason", "twin", "label")] for row in rows]
    assert told[:4] == [
        ["False", "", "", "", ""],
        ["True", "other", "no agreement", "", "Ward 7"],
        ["True", "copy", "near-copy of client client 1", "client 1", "Ward 7"],
        ["False", "absent", "NaN in update", "", ""],
    ]


def test_csv_does_not_hand_formulas_to_a_spreadsheet(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "run.ledger") as ledger:
        ledger.start_run({}, "1")
        ledger.append(RoundRecord(1, (ClientRecord("=HYPERLINK(1)", -0.5, 0.0, label="@x"),)))
        export(ledger, tmp_path / "out.csv", "csv")
    text = (tmp_path / "out.csv").read_text()
    assert ",'=HYPERLINK(1)," in text
    assert ",-0.5," in text
    assert ",'@x" in text


SEEN_NOT = ["", " ", "\n", "\r\n", "\t", "\x00", '"', "'", "\u3000", "\u2007", "\u200d", "\u202e"]
SEEN_NOT += [
    "\u00ad",
    "\u2060",
    "\u0301",
    "\ufeff",
    '" \n',
    "x;",
    "x,",
    "x|",
    "x\t",
    "x\r",
    "x;\u3000'",
]


@pytest.mark.parametrize("before", SEEN_NOT, ids=ascii)
@pytest.mark.parametrize("start", "=+-@\uff1d\uff0b\ufe66\ufe63\ufe6b\u207a\u2212", ids=ascii)
def test_no_cell_begins_as_a_formula_whatever_comes_before_it(before: str, start: str) -> None:
    shown = harmless(f"{before}{start}cmd|'/C calc'!A0")
    assert "\x00" not in shown
    for cell in re.split(r"[,;|\t\r\n]", shown):
        seen = cell.lstrip(' "`\u3000\u2007\u2400\u200d\u202e\u00ad\u2060\u0301\ufeff')
        assert not seen.startswith(start), shown


def test_a_cell_does_not_end_at_a_nul() -> None:
    assert harmless("ann\x00=1") == "ann\u2400=1"
    assert harmless("\n=1") == "'\n'=1"
    for plain in ("ann", "client-7", "a=b", "1", "", " ann", 7, -0.5, None):
        assert harmless(plain) == plain


def test_json_holds_runs_rounds_and_metrics(ledger: Ledger, tmp_path: Path) -> None:
    export(ledger, tmp_path / "out.json", "json")
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["runs"][0]["config"] == {"rule": "positive", "budget": 300}
    assert [item["round"] for item in data["rounds"]] == [1, 2, 3]
    assert data["rounds"][0]["metrics"] == {"accuracy": 0.9, "loss": 1.3}
    assert data["rounds"][2]["hash"] == ledger.head
    copy = data["rounds"][0]["clients"][2]
    assert (copy["kind"], copy["twin"], copy["label"]) == ("copy", "client 1", "Ward 7")
    assert data["rounds"][0]["rejected"] == [
        {"client": "client x", "reason": "NaN in update", "kind": "absent"}
    ]


def test_json_is_valid_where_a_score_is_not_a_number(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "run.ledger") as ledger:
        ledger.start_run({}, "1")
        client = ClientRecord("a", math.nan, 0.5)
        ledger.append(RoundRecord(1, (client,), metrics={"loss": math.inf}))
        export(ledger, tmp_path / "out.json", "json")
    written = json.loads((tmp_path / "out.json").read_text())["rounds"][0]
    assert (written["clients"][0]["score"], written["metrics"]["loss"]) == (None, "inf")


def test_parquet_keeps_types(ledger: Ledger, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert export(ledger, tmp_path / "out.parquet", "parquet") == 3
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table.column_names == list(COLUMNS)
    assert table.column("reward").to_pylist()[:4] == [None, 100, 200, None]
    assert str(table.schema.field("score").type) == "double"
    assert str(table.schema.field("flagged").type) == "bool"
    assert table.column("kind").to_pylist()[:4] == [None, "other", "copy", "absent"]


def test_parquet_without_its_library_says_what_to_install(
    ledger: Ledger, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fedmerit\[ledger\]'"):
        export(ledger, tmp_path / "out.parquet", "parquet")
    assert not list(tmp_path.glob("*out*"))


def test_bad_targets_are_named(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'json'"):
        export(ledger, tmp_path / "out", "jsn")
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(LedgerError, match=r"cannot write .*File exists"):
        export(ledger, tmp_path / "file" / "out.csv", "csv")
