"""Runs by column: the same from records and from a ledger, and long runs as fewer points."""

import math

import numpy as np
import pytest

from fedmerit.flags import Flag, Kind
from fedmerit.ledger import Ledger
from fedmerit.report import data as page
from fedmerit.report import open_source
from fedmerit.report.data import page_data
from fedmerit.report.ranking import Course, Why
from fedmerit.report.source import RunView
from fedmerit.report.table import Table, steps_of
from fedmerit.report.thinning import last_of_each, thinned
from fedmerit.types import ClientRecord, Rejection, RoundRecord
from tests.ledger.builders import make_record


def records(rounds=40, clients=6):
    found = []
    for number in range(1, rounds + 1):
        rng = np.random.default_rng(number)
        members = tuple(
            ClientRecord(
                f"client {index}",
                score=math.nan if rng.random() < 0.1 else float(rng.normal()),
                weight=float(rng.integers(2)),
                p_value=None if index == 0 else float(rng.random()),
                epsilon=None if index < 3 else float(rng.random()),
                flag=[None, None, Flag(Kind.COPY, twin="x"), Flag(Kind.UNDECIDED)][rng.integers(4)],
                reward=None if index == 5 else int(rng.integers(3)),
                label="Ward" if number == 7 else None,
            )
            for index in range(clients)
            if rng.random() < 0.8
        )
        refused = (Rejection("late", "too slow", Kind.ABSENT),) if number % 3 == 0 else ()
        found.append(RoundRecord(number, members, refused, {"loss": 1 / number}))
    return found


def shown(view, **options):
    data = page_data(view, **options)
    return {name: value for name, value in data.items() if name not in {"made", "chain"}}


def test_a_ledger_and_its_records_give_the_same_page(tmp_path):
    made = records()
    with Ledger.open(tmp_path / "run.ledger") as ledger:
        ledger.start_run({}, "1")
        for record in made:
            ledger.append(record)
    view = open_source(tmp_path / "run.ledger")
    assert len(view.records) == 40
    # NaN is not equal to itself, but is written in one way.
    assert [repr(record) for record in view.records] == [repr(record) for record in made]
    assert repr(view.records[-1]) == repr(made[-1])
    assert shown(view) == shown(RunView("run", made, software="1"))


def test_a_page_shows_the_run_as_it_was_when_it_was_opened(tmp_path):
    with Ledger.open(tmp_path / "run.ledger") as ledger:
        ledger.start_run({}, "1")
        ledger.append(make_record(1))
        view = open_source(tmp_path / "run.ledger")
        ledger.append(make_record(2))
        assert len(list(view.records)) == len(view.records) == len(view.table.rounds) == 1


@pytest.mark.parametrize("each", [1, 2, 7, 40, 100])
def test_fewer_points_keep_totals_means_and_reasons(each):
    table = Table.of(records())
    for course in table.courses():
        points = thinned(course, each)
        assert len(points.at) == len(set((course.at // each).tolist()))
        assert points.reward[points.reward > 0].sum() == (course.paid or 0)
        assert (points.paid is None) == (course.paid is None)
        for place, at in enumerate(points.at):
            inside = course.at // each == at
            scores = course.score[inside & np.isfinite(course.score)]
            expected = scores.mean() if len(scores) else np.nan
            np.testing.assert_allclose(points.score[place], expected)
            np.testing.assert_allclose(points.weight[place], course.weight[inside].mean())
            np.testing.assert_equal(points.epsilon[place], largest(course.epsilon[inside]))
            told = [number for number in course.why[inside] if number]
            accusing = [number for number in told if table.whys[number - 1].accuses]
            assert points.why[place] == (accusing or told or [0])[0]


def test_rounds_may_come_after_the_courses_were_read():
    made = records()
    table = Table.of(made[:25])
    table.courses()
    for record in made[25:]:
        table.add(record)
    for course, expected in zip(table.courses(), Table.of(made).courses(), strict=True):
        for name in ("at", "score", "weight", "p_value", "epsilon", "reward", "value"):
            np.testing.assert_array_equal(getattr(course, name), getattr(expected, name))


def largest(values):
    known = values[~np.isnan(values)]
    return known.max() if len(known) else np.nan


def test_points_are_as_many_as_fit():
    assert steps_of(1000, 1_000_000, 250_000) == 4
    assert steps_of(1000, 250_000, 250_000) == 1
    assert steps_of(10, 10**9, 250_000) == 10
    assert steps_of(0, 0, 250_000) == 1
    assert last_of_each([1, 2, 3, 4, 5], 2) == [2, 4, 5]
    assert last_of_each([], 3) == []


def test_a_long_run_is_drawn_from_fewer_points_and_told_in_full(monkeypatch):
    made = records()
    full = shown(RunView("run", made))
    monkeypatch.setattr(page, "_MOST_POINTS", 50)
    short = shown(RunView("run", made))
    assert (full["each"], short["each"]) == (1, math.ceil(len(Table.of(made).column("at")) / 50))
    assert short["rounds"][-1] == 40
    assert len(short["rounds"]) < 12
    for a, b in zip(full["clients"], short["clients"], strict=True):
        for name in ("name", "mean", "half", "flagged", "rejected", "kinds", "paid", "rounds"):
            assert a[name] == b[name]
        assert max(b["at"], default=0) < len(short["rounds"])
    assert sum(len(client["at"]) for client in short["clients"]) < 100


def test_a_course_without_rounds_stays_as_it_is():
    nothing = np.empty(0, dtype=np.int32)
    course = Course(*[nothing] * 9, whys=[Why("a", "a", accuses=True)])
    assert thinned(course, 5) is course
    assert math.isnan(course.mean)


def test_many_maps_of_agreement_are_not_all_held():
    table = Table()
    big = bytes(1000 * 999 // 2)
    members = tuple(ClientRecord(f"c{i}", 0.0, 1.0) for i in range(1000))
    for number in range(1, 60):
        table.add(RoundRecord(number, members, agreement=big))
    assert sum(len(packed) for _, _, packed in table.agreements) < 10**7
    assert table.agreements[-1][0] == 58
