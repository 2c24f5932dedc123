"""The numbers of the page, as plain values for JSON: rounded, and each text once."""

import base64
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fedmerit import __version__
from fedmerit.errors import DataError
from fedmerit.flags import Flag
from fedmerit.records.agreement_map import clients_in, unpack_agreement
from fedmerit.report.cliques import clique_order
from fedmerit.report.ranking import Course
from fedmerit.report.source import RunView
from fedmerit.report.table import Table, steps_of
from fedmerit.report.thinning import last_of_each, thinned

# Agreement maps of so many bytes together; of a long run, evenly spaced rounds are kept.
_MAP_BYTES = 500_000
_LEAST_P = 1e-300
# Points of all clients together; of a longer run, each point is a mean over some rounds.
_MOST_POINTS = 200_000
_MOST_REFUSALS = 20_000  # the newest; every client's number of them is told as well


def page_data(
    view: RunView, *, refresh: float | None = None, live: str | None = None
) -> dict[str, Any]:
    """Return all that the page shows.

    A file loads itself again every `refresh` seconds; a served page reads its data again, from the
    address `live`, when the server says that something changed; so its data are the same as long as
    the run is.
    """
    try:
        return _page_data(view, refresh, live)
    except ArithmeticError as error:  # numbers of older versions had no bound
        raise DataError(f"numbers of {view.title} cannot be added up: {error}") from None


def _page_data(view: RunView, refresh: float | None, live: str | None) -> dict[str, Any]:
    table = view.table
    each = steps_of(len(table.rounds), len(table.column("at")), _MOST_POINTS)
    courses = table.courses()
    ranked = sorted(range(len(courses)), key=lambda n: _rank_key(table.names[n], courses[n]))
    index = {number: place for place, number in enumerate(ranked)}
    reasons = sorted(table.whys, key=lambda why: (why.words, why.accuses))
    kinds = sorted({(why.kind, why.accuses) for why in reasons}, key=_kind_key)
    names = [kind for kind, _ in kinds]
    groups = sorted({course.group for course in courses}, key=_group_key)
    places = {why: place + 1 for place, why in enumerate(reasons)}
    numbers = [0, *(places[why] for why in table.whys)]
    refused = table.rejected[-_MOST_REFUSALS:]
    return {
        "title": view.title,
        "made": None if live else datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "refresh": refresh,
        "live": live,
        "versions": {"this page": f"fedmerit {__version__}", "recorded by": view.software},
        "rounds": last_of_each(table.rounds, each),
        "each": each,
        "metrics": _metrics(last_of_each(table.metrics, each)),
        "groups": groups,
        "groupsAre": "behaviours" if table.behaviours else "flags",
        "reasons": [[why.words, names.index(why.kind)] for why in reasons],
        "kinds": [list(kind) for kind in kinds],
        "clients": [
            _client(table.names[n], courses[n], thinned(courses[n], each), groups, numbers)
            for n in ranked
        ],
        "rejected": [
            [place // each, index[client], Flag(reply.kind, reply.reason).words]
            for place, client, reply in refused
        ],
        "agreement": _maps(table, index, each),
        "chain": None if view.chain is None else vars(view.chain),
        "settings": [
            *([["a point of this page", f"mean over {each} rounds"]] if each > 1 else []),
            *([str(key), str(value)] for key, value in sorted(view.settings.items())),
        ],
    }


def _rank_key(name: str, course: Course) -> tuple[bool, float, str]:
    mean = course.mean
    return (math.isnan(mean), 0.0 if math.isnan(mean) else -mean, name)


def _group_key(group: str) -> tuple[bool, str]:
    return (group not in {"honest", "never flagged"}, group)


def _kind_key(kind: tuple[str, bool]) -> tuple[bool, str]:
    """Order kinds: those that accuse come first."""
    words, accuses = kind
    return (not accuses, words)


def _client(
    name: str, course: Course, points: Course, groups: Sequence[str], numbers: Sequence[int]
) -> dict[str, Any]:
    """Return a client's numbers: those of the whole course, and the points that are drawn."""
    return {
        "name": name,
        "label": course.label,
        "group": groups.index(course.group),
        "mean": _short(course.mean),
        "half": _short(course.half_width),
        "rounds": len(course.at),
        "flagged": course.flagged,
        "rejected": course.rejected,
        "kinds": course.kinds(),
        "paid": course.paid,
        "worth": None if course.worth is None else [_short(part) for part in course.worth],
        "at": points.at.tolist(),
        "score": [_short(value) for value in points.score.tolist()],
        "weight": [_short(value) for value in points.weight.tolist()],
        "evidence": _or_empty([_evidence(value) for value in points.p_value.tolist()]),
        "epsilon": _or_empty([_short(value) for value in points.epsilon.tolist()]),
        "why": [numbers[why] for why in points.why.tolist()] if points.why.any() else [],
        "reward": _or_empty([None if pay < 0 else pay for pay in points.reward.tolist()]),
    }


def _or_empty(values: Sequence[Any]) -> list[Any]:
    """Leave out a list that says nothing."""
    return [] if all(value is None for value in values) else list(values)


def _short(value: float | None) -> float | None:
    """Keep five digits, which is more than a picture shows; nothing for what is no number."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.5g}")


def _evidence(p_value: float | None) -> float | None:
    """Return -log10 of a p-value: 2 is one in a hundred."""
    if p_value is None or not math.isfinite(p_value):
        return None
    return round(-math.log10(max(p_value, _LEAST_P)), 2) + 0.0


def _metrics(rounds: Sequence[Mapping[str, float]]) -> list[list[Any]]:
    names = dict.fromkeys(name for metrics in rounds for name in metrics)
    return [[name, [_short(metrics.get(name)) for metrics in rounds]] for name in names]


def _maps(table: Table, index: dict[int, int], each: int) -> list[dict[str, Any]]:
    kept = table.agreements
    if not kept:
        return []
    largest = max(len(packed) for _, _, packed in kept)
    most = max(1, _MAP_BYTES // largest)
    if len(kept) > most:
        last = len(kept) - 1
        chosen = sorted({round(last - step * last / most) for step in range(most)})
        kept = [kept[place] for place in chosen]
    return [
        {
            "at": place // each,
            "clients": [index[client] for client in clients[: clients_in(packed)]],
            "order": clique_order(unpack_agreement(packed)),
            "pairs": base64.b64encode(packed).decode(),
        }
        for place, clients, packed in kept
    ]
