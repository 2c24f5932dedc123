"""No stale page: quoted numbers are those of the results, and results say which code made them."""

import csv
from dataclasses import replace

import pytest

from checks.pages import again as again_module
from checks.pages import quotes, results, status
from checks.pages.__main__ import main
from checks.pages.origin import expected_code
from checks.pages.parts import write_parts
from checks.pages.quotes import PAGES, RESULTS, Definitions, Quote, findings, fix, unbound
from checks.pages.results import Reader
from checks.studies.panel.__main__ import STUDIES
from fedmerit.errors import DataError
from fedmerit.experiments.benchmark.base import Setting
from fedmerit.experiments.benchmark.files import read_rows, write
from fedmerit.experiments.benchmark.null.benchmark import Null
from fedmerit.experiments.benchmark.running import run_benchmark
from fedmerit.experiments.fingerprint import Sources, read_stamp, write_page
from fedmerit.experiments.runner import (
    Cell,
    read_outcomes,
    run_experiment,
    sources_of,
    write_outcomes,
)
from fedmerit.experiments.spec import EXPERIMENTS, FEDAVG, PUBLISHED
from fedmerit.simulation.config import FederationConfig, ModelChoice
from fedmerit.simulation.data.datasets import load

PLACE = Sources.of("fedmerit.rng")
NULL = ("seed", "scorer", "kind", "rule", "level", "rejections", "trials", "code")


def name_of(page):
    return str(page.relative_to(quotes.ROOT))


@pytest.fixture(scope="module")
def definitions():
    return Definitions.read()


@pytest.mark.parametrize("page", [*PAGES, *RESULTS], ids=name_of)
def test_quoted_numbers_are_what_the_results_say(page, definitions):
    """`python -m checks.pages --fix` writes them anew; of stale ones the section must say so."""
    assert [str(finding) for finding in findings(page, definitions, Reader())] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_measured_numbers_say_where_they_come_from(page, definitions):
    """Name them, or list them under `chosen` in quoted.toml if they were not measured."""
    assert [str(finding) for finding in unbound(page, definitions)] == []


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A small project: results of two codes, and a page that quotes them."""
    monkeypatch.setattr(quotes, "ROOT", tmp_path)
    for kept in (results.is_current, results.read_table):
        kept.cache_clear()
    code = Null().sources.code.digest
    rows = [
        (400, "exact", "permuted", "pair", 0.01, 30, 1000, code),
        (400, "exact", "drawn", "pair", 0.01, 10, 1000, code),
        (400, "conditional", "drawn", "pair", 0.01, 5, 1000, "old"),
        (400, "conditional", "drawn", "client", "", 5, 1000, "old"),
    ]
    with (tmp_path / "null.csv").open("w", newline="") as file:
        csv.writer(file).writerows([NULL, *rows])
    table = "# One\n\n| | ours | theirs |\n|---|---:|---:|\n| **all** | 1,234.5 (9) | -0.5 |\n"
    write_page(tmp_path / "made.md", table, PLACE)
    (tmp_path / "copied.md").write_text(table)
    return tmp_path


def told(folder, text, **quoted):
    page = folder / "page.md"
    page.write_text(text)
    return page, [str(f) for f in findings(page, Definitions(quoted, {}), Reader(folder))]


EXACT = 'table("null").where(scorer="exact")'
OLD = 'table("null").where(scorer="conditional")'


def test_rows_are_chosen_grouped_and_summed_up(folder):
    table = Reader(folder).table("null")
    exact = table.where(scorer="exact")
    assert (exact.mean("rejections"), exact.sum("trials"), len(exact)) == (20, 2000, 2)
    assert [group.low("rejections") for group in exact.by("kind")] == [30, 10]
    assert table.where(kind=("drawn", "permuted")).high("rejections") == 30
    assert table.where(scorer="conditional").values("level") == [0.01]
    with pytest.raises(DataError, match=r"null\.csv has no row with"):
        table.where(scorer="krum")
    assert Reader(folder).cell("made", "ours", "all") == 1234.5
    assert Reader(folder).cell("made", "ours", "all", which=1, under="One") == 9
    assert Reader(folder).cell("made", "theirs", "*") == -0.5
    with pytest.raises(DataError, match="no table with a column"):
        Reader(folder).cell("made", "ours", "nobody")


def test_a_number_agrees_as_it_is_rounded_and_is_fixed_in_its_own_form(folder):
    sums = {"exact": f'{EXACT}.mean("rejections")', "trials": f'{EXACT}.sum("trials")'}
    right = "It was **20**<!--exact-->, 20.00<!--exact--> of 2,000<!--trials-->; 3.7 is 1e4.\n"
    assert told(folder, right, **sums)[1] == []
    page, found = told(folder, "Of 21 and 2.1<!--exact--><!--trials-->.\n", **sums)
    assert found == [
        "page.md:1: 21 must be 20 (exact: 20)",
        "page.md:1: 2.1 must be 2,000.0 (trials: 2000)",
    ]
    fix(page, list(findings(page, Definitions(sums, {}), Reader(folder))))
    assert page.read_text() == "Of 20 and 2,000.0<!--exact--><!--trials-->.\n"


@pytest.mark.parametrize(
    ("written", "value", "fixed"),
    [
        ("0.98", 0.984, None),
        ("0.98", 0.986, "0.99"),
        ("0.00", -0.001, None),
        ("+15", 14.5, None),
        ("+14", 14.5, None),
        ("+0.1", 0.16, "+0.2"),
        ("+12", -3.2, "-3"),
        ("\u22120.5", -0.5, None),
        ("999", 1234.0, "1,234"),
        ("none", 0.0, None),
        ("Twelve", 12.0, None),
        ("twelve", 11.0, "eleven"),
        ("two", 2.5, "2.5"),
        ("two", 40.0, "40"),
    ],
)
def test_numbers_are_written_as_they_were(written, value, fixed):
    quote = Quote(PAGES[0], 1, 0, written, "name", "")
    assert quote.says(value) == (fixed is None)
    assert fixed is None or quote.written(value) == fixed


def test_words_code_and_addresses(folder):
    five = {"five": f'{EXACT}.low("rejections") / 2', "zero": "0"}
    text = "All five<!--five--> of `9.9`; [6.6](7.7.md) **no**<!--zero--> one, 5<!--five-->.\n"
    assert told(folder, text, **five)[1] == []
    assert told(folder, "```\n7<!--five-->\n```\n    8<!--five-->\n", **five)[1] == []
    assert told(folder, "<table><td>7<!--five--></td></table>\n", **five)[1] == []
    with pytest.raises(DataError, match="must follow 2 numbers"):
        told(folder, "Only 5<!--five--><!--five-->.\n", **five)


def test_stale_results_must_be_called_so(folder):
    old = {"old": f'{OLD}.mean("rejections")', "page": 'cell("copied", "theirs", "all")'}
    made = {"made": 'cell("made", "theirs", "*")'}
    assert told(folder, "So -0.5<!--made-->.\n", **made)[1] == []
    _, found = told(folder, "# A\nIt is 5<!--old-->.\n# B\nAnd -0.5<!--page-->.\n", **old)
    assert found == [
        "page.md:2: 5 is of null.csv, which other code made (old)",
        "page.md:4: -0.5 is of copied.md, which other code made (page)",
    ]
    said = "# A\nMeasured with an earlier version: 5<!--old-->.\n# B\nAnd -0.5<!--page-->.\n"
    assert len(told(folder, said, **old)[1]) == 1


def test_what_cannot_be_computed_says_why(folder):
    assert "must define what is quoted, got nothing" in told(folder, "5<!--nothing-->\n")[1][0]
    wrong = {"wrong": f'{EXACT}.mean("no column")'}
    assert "wrong cannot be computed" in told(folder, "5<!--wrong-->\n", **wrong)[1][0]


def test_measured_numbers_must_have_names_unless_they_were_chosen(folder):
    page = folder / "page.md"
    page.write_text("Of 20 clients 0.5, `0.6`, 7 % and 8.5<!--name--> with rate 0.1.\n")
    found = unbound(page, Definitions({}, {"page.md": ["0.1"]}))
    assert [finding.quote.text for finding in found] == ["0.5", "7"]


def test_every_table_has_somebody_who_decides_it():
    for path in sorted(results.FOLDER.glob("*.csv")):
        expected = expected_code(path.stem)
        with path.open(encoding="utf-8", newline="") as file:
            assert expected(next(csv.DictReader(file))), path.name
    assert expected_code("nobody")({}) is None
    experiment = EXPERIMENTS["mnist-noise"]
    row = {"line": "fedavg", "value": "0.1", "seed": "1"}
    cell = Cell(experiment.lines[0], experiment.points[-1], 1)
    assert expected_code("mnist-noise")(row) == sources_of(cell).code.digest
    assert expected_code("mnist-noise")({**row, "line": "gone"}) is None


def test_pages_are_current_or_say_what_changed(folder):
    page = folder / "made.md"
    assert status.page_status(page).state == status.CURRENT
    assert status.page_status(folder / "copied.md").state == status.UNKNOWN
    stamp = read_stamp(page)
    room = "fedmerit.rng"
    page.write_text(page.read_text().replace(stamp.code.rooms[room], "01234567"))
    results.is_current.cache_clear()
    assert str(status.page_status(page)).endswith("changed: rng")
    page.write_text(page.read_text().replace("from fedmerit.rng", "from fedmerit.gone"))
    results.is_current.cache_clear()
    assert "fedmerit.gone" in status.page_status(page).told
    assert status.table_status(folder / "null.csv").told == "2 of 4 rows: rows 2"
    (folder / "whole.md").write_text("# Whole\n<!-- tables: null -->\n")
    assert status.page_status(folder / "whole.md").told == "made from null.csv"
    assert {s.name for s in status.all_results(folder)} >= {"made.md", "null.csv"}


def test_a_stamp_can_be_read_and_gives_way_to_a_new_one(folder):
    page = folder / "made.md"
    stamp = read_stamp(page)
    assert stamp.code == PLACE.code
    assert stamp.sources == PLACE
    again = page.read_text()
    write_page(page, again, replace(PLACE, closed=("fedmerit.validation",)), "digits")
    assert page.read_text().count("Made by fedmerit") == 1
    assert read_stamp(page).sources.closed == ("fedmerit.validation",)
    assert read_stamp(page).inputs == "digits"
    assert read_stamp(folder / "copied.md") is None
    page.write_text(page.read_text().replace("\nversion ", "\nvision "))
    with pytest.raises(DataError, match="must have a line 'version'"):
        read_stamp(page)


def test_parts_of_a_page_are_replaced_and_the_rest_stays(folder):
    page = folder / "parts.md"
    page.write_text("Mine.\n<!-- begin one -->\nold\n<!-- end one -->\nYours.\n")
    write_parts(page, {"one": "| new |"})
    expected = "Mine.\n<!-- begin one -->\n\n| new |\n\n<!-- end one -->\nYours.\n"
    assert page.read_text() == expected
    write_parts(page, {"one": "| new |"}, PLACE)
    assert page.read_text().startswith(expected)
    assert read_stamp(page).code == PLACE.code
    with pytest.raises(DataError, match="must have a part <!-- begin two -->"):
        write_parts(page, {"two": ""})


def test_a_page_by_hand_can_be_stamped(folder):
    assert main(["--stamp", str(folder / "copied.md"), "fedmerit.rng"]) == 0
    results.is_current.cache_clear()
    assert status.page_status(folder / "copied.md").state == status.CURRENT


@pytest.mark.slow
def test_a_line_whose_runs_are_the_same_again_is_current(tmp_path, monkeypatch):
    config = FederationConfig(users=4, per_round=3, rounds=2, model=ModelChoice(hidden=8))
    name, experiment = "mnist-noise", EXPERIMENTS["mnist-noise"]
    points, lines = experiment.points[::5], (FEDAVG, PUBLISHED)
    small = replace(experiment, base=config, seeds=(0,), points=points, lines=lines)
    monkeypatch.setattr(again_module, "experiment_of", lambda _: small)
    digits = load("digits")
    expected = run_experiment(small, digits, tmp_path)
    before = [replace(outcome, code="old") for outcome in expected]
    before[-1] = replace(before[-1], accuracy=0.5, code="")
    write_outcomes(tmp_path / f"{name}.csv", before)
    names = [line.name for line in lines]
    assert again_module.again(name, names, digits, folder=tmp_path) == 1
    after = read_outcomes(tmp_path / f"{name}.csv")
    assert [o.code for o in after if o.line == "fedavg"] == [
        o.code for o in expected if o.line == "fedavg"
    ]
    assert {o.code for o in after if o.line != "fedavg"} == {"old", ""}


@pytest.mark.slow
def test_cells_of_a_benchmark_that_are_the_same_again_are_current(tmp_path):
    null, digits = Null(), load("digits")
    setting = Setting(digits, True, lambda _: None, tmp_path / "kept")
    command = "fedmerit benchmark null --quick --dataset digits"
    rows, _ = run_benchmark(null, [7], setting, tmp_path, command)
    old = [replace(row, code="old") for row in rows]
    write(null, old, tmp_path, command, "digits quick")
    assert again_module.again_cells("null", digits, 1, seed=0, folder=tmp_path) == 0
    found = read_rows(tmp_path / "null-digits.csv", null.row)
    assert [row.code for row in found] == [null.row_code(row) for row in rows]
    assert command in (tmp_path / "null-digits.md").read_text()
    write(
        null,
        [replace(row, rejections=row.trials) for row in old],
        tmp_path,
        command,
        "digits quick",
    )
    assert again_module.again_cells("null", digits, 1, seed=0, folder=tmp_path) == 1
    assert {row.code for row in read_rows(tmp_path / "null-digits.csv", null.row)} == {"old"}


@pytest.mark.parametrize("name", sorted(STUDIES))
def test_the_panels_tables_are_read_by_what_writes_its_page(name):
    study = STUDIES[name]
    tables = [read_rows(table, study.row) for table in results.FOLDER.glob(f"panel-{name}-*.csv")]
    assert tables
    assert all(tables)
