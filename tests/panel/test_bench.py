"""One round before its judges: what is asked, what is refused, what it comes to."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedmerit.errors import InvalidInputError
from fedmerit.panel import Bench, Book, Panel
from fedmerit.panel.hearing import hear
from tests.panel.games import names

CLIENTS = tuple(names(6))
EFFECT = np.array([0.06, 0.04, 0.02, 0.0, -0.02, -0.04])


def bench(
    number=1,
    panel=None,
    judges=CLIENTS,
    book=None,
    apart=(),
    weights=None,
    seed=0,
    effect=EFFECT,
):
    """A round of a model with one parameter, whose value is the metric."""
    weights = np.ones(6) if weights is None else np.asarray(weights, float)
    updates = effect[:, None].copy()
    after = 0.5 + np.array([effect.mean()])
    made = Bench(panel or Panel(), number, CLIENTS, updates, weights, np.array([0.5]), after)
    made.ask(judges, book or Book(), np.random.default_rng(seed), apart)
    return made


def honest(made):
    return {key: float(model[0]) for key, _, model, _ in made}


def test_a_judge_gets_the_new_model_the_old_one_and_two_for_each_pair():
    made = list(bench(panel=Panel(pairs=3)))
    for client in CLIENTS:
        asked = [(model[0], current) for _, judge, model, current in made if judge == client]
        assert len(asked) == 2 + 2 * 3
        assert sum(current for _, current in asked) == 1


def test_the_model_before_is_asked_for_once():
    made = bench(book=Book(latest=dict.fromkeys(CLIENTS[:4], 0.5)))
    counts = {client: sum(judge == client for _, judge, _, _ in made) for client in CLIENTS}
    assert counts == {client: 3 if client in CLIENTS[:4] else 4 for client in CLIENTS}


def test_groups_are_weighted_means_and_nobody_judges_itself():
    weights = np.array([1, 2, 3, 4, 5, 6.0])
    made = bench(weights=weights)
    models = {float(model[0]) for _, _, model, _ in made}
    for pair in made.pairs:
        for group in (pair.left, pair.right):
            rows = [CLIENTS.index(client) for client in group]
            assert pair.judge not in group
            expected = 0.5 + weights[rows] @ EFFECT[rows] / weights[rows].sum()
            assert min(abs(expected - model) for model in models) < 1e-12


def test_values_add_up_to_what_the_round_gained():
    """And over the rounds to what each client added, whatever the first judgements left open."""
    book, weights, totals = Book(), dict.fromkeys(CLIENTS, 1 / 6), dict.fromkeys(CLIENTS, 0.0)
    for number in range(1, 6):
        made = bench(number, book=replace(book, latest={}), seed=number)
        book, heard = hear(made.panel, book, made.read(honest(made)), weights)
        totals = {client: totals[client] + value for client, value in heard.values.items()}
        assert heard.gain == pytest.approx(0.01)
        assert sum(heard.values.values()) == pytest.approx(heard.gain)
    for client, effect in zip(CLIENTS, EFFECT, strict=True):
        assert totals[client] == pytest.approx(5 * effect / 6, abs=1e-4)


def test_what_changes_over_the_rounds_is_credited_once():
    """Worth that turns round half-way comes to nothing, however early the first half was."""
    book, weights, totals = Book(), dict.fromkeys(CLIENTS, 1 / 6), dict.fromkeys(CLIENTS, 0.0)
    for number in range(1, 21):
        effect = EFFECT if number <= 10 else EFFECT[::-1]
        made = bench(number, book=replace(book, latest={}), seed=number, effect=effect)
        book, heard = hear(made.panel, book, made.read(honest(made)), weights)
        totals = {client: totals[client] + value for client, value in heard.values.items()}
        if number == 10:
            half = dict(totals)
    assert half[CLIENTS[0]] - half[CLIENTS[-1]] == pytest.approx(10 * 0.1 / 6, rel=0.01)
    assert abs(totals[CLIENTS[0]] - totals[CLIENTS[-1]]) < 0.3 * (
        half[CLIENTS[0]] - half[CLIENTS[-1]]
    )


def test_values_of_those_in_the_model_add_up_also_beside_who_is_kept_out():
    weights = {client: float(place) for place, client in enumerate(CLIENTS)}
    made = bench(apart=CLIENTS[:1], weights=[1, 1, 2, 3, 4, 5])
    _, heard = hear(made.panel, Book(), made.read(honest(made)), weights)
    inside = sum(value for client, value in heard.values.items() if weights[client])
    assert inside == pytest.approx(heard.gain)
    assert math.isfinite(heard.values[CLIENTS[0]])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (math.nan, "accuracy must be a number, got NaN"),
        (1.5, "accuracy must be from 0 to 1, got 1.5"),
        (-0.01, "accuracy must be from 0 to 1, got -0.01"),
        (math.inf, "accuracy must be from 0 to 1, got inf"),
        (True, "accuracy must be a number, got True"),
        ("0.5", "accuracy must be a number, got '0.5'"),
        (None, "accuracy must be a number, got None"),
        ([0.5], "accuracy must be a number, got [0.5]"),
    ],
)
def test_an_answer_that_cannot_be_true_concerns_nobody_else(answer, reason):
    made = bench()
    answers = honest(made)
    key = next(iter(answers))
    read = made.read({**answers, key: answer})
    assert read.refused == ((key, reason),)
    assert read.missing == 1
    whole = made.read(answers)
    assert len(whole.heard.pairs) - len(read.heard.pairs) <= 1


def test_late_double_and_foreign_answers_are_refused():
    made = bench(number=7)
    answers = list(honest(made).items())
    key, _ = answers[0]
    read = made.read([*answers, (key, 0.9), ("6:0", 0.5), ("nonsense", 0.5), ("7:9999", 0.1)])
    assert dict(read.refused) == {
        key: "a second answer to the same question",
        "6:0": "the answer must be of round 7, got one of round 6",
        "nonsense": "nobody was asked that",
        "7:9999": "nobody was asked that",
    }
    assert read.missing == 0
    assert read.heard == made.read(answers).heard


def test_half_a_pair_is_no_comparison():
    made = bench()
    answers = honest(made)
    for lost in list(answers):
        read = made.read({key: value for key, value in answers.items() if key != lost})
        assert len(read.heard.pairs) >= len(made.pairs) - 1


def test_no_answers_no_values():
    made = bench()
    _, heard = hear(made.panel, Book(), made.read({}), dict.fromkeys(CLIENTS, 1.0))
    assert math.isnan(heard.gain)
    assert heard.values == {}
    assert heard.missing == 6 * 4


def test_a_digest_covers_what_was_asked_and_what_was_said():
    made = bench()
    answers = honest(made)
    first = made.read(answers).digests
    assert set(first) == set(CLIENTS)
    key, judge = next((key, judge) for key, judge, _, _ in made)
    second = made.read({**answers, key: answers[key] / 2}).digests
    assert [name for name in CLIENTS if first[name] != second[name]] == [judge]
    other = bench(seed=1)
    assert other.read(honest(other)).digests != first


def test_a_budget_of_judges_goes_round():
    panel, book = Panel(judges=2), Book()
    seen = set()
    for number in range(1, 4):
        made = bench(number, panel, book=book, seed=number)
        asked = {judge for _, judge, _, _ in made}
        assert len(asked) == 2
        seen |= asked
        book, _ = hear(panel, book, made.read(honest(made)), dict.fromkeys(CLIENTS, 1.0))
    assert seen == set(CLIENTS)


def test_old_rounds_are_forgotten():
    panel, book = Panel(rounds=2), Book()
    for number in range(1, 5):
        made = bench(number, panel, book=book, seed=number)
        book, _ = hear(panel, book, made.read(honest(made)), dict.fromkeys(CLIENTS, 1.0))
    assert [known.round for known in book.rounds] == [3, 4]


def test_a_loss_is_turned_round_and_clipped():
    panel = Panel("loss", low=0, high=2, lower_is_better=True, clip=True)
    assert [panel.read(value) for value in (0, 0.5, 2, 7, math.inf)] == [2, 1.5, 0, 0, 0]
    with pytest.raises(InvalidInputError, match="NaN"):
        panel.read(math.nan)
    assert Panel().read(np.float32(0.5)) == 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": ""}, "metric must be the name of a metric, got ''"),
        ({"pairs": 0}, "pairs must be at least 1, got 0"),
        ({"judges": 0}, "judges must be at least 1, got 0"),
        ({"low": 1.0, "high": 1.0}, "high must be greater than 1, got 1"),
        ({"rate": 1.0}, "rate must be"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        Panel(**settings)
