"""The numbers of the page, as plain values for JSON: rounded, and each text once."""

import base64
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from fedmerit import __version__
from fedmerit.agreement_map import clients_in, unpack_agreement
from fedmerit.flags import Flag
from fedmerit.report.cliques import clique_order
from fedmerit.report.ranking import Course, Why, courses_of
from fedmerit.report.source import RunView
from fedmerit.types import RoundRecord

# Agreement maps of so many bytes together; of a long run, evenly spaced rounds are kept.
_MAP_BYTES = 500_000
_LEAST_P = 1e-300


def page_data(
    view: RunView, *, refresh: float | None = None, live: str | None = None
) -> dict[str, Any]:
    """Return all that the page shows.

    A file loads itself again every `refresh` seconds; a served page reads its data again, from the
    address `live`, when the server says that something changed.
    """
    records = view.records
    courses = courses_of(records)
    ranked = sorted(courses.items(), key=lambda item: _rank_key(*item))
    index = {name: place for place, (name, _) in enumerate(ranked)}
    found = {why for course in courses.values() for why in course.why if why is not None}
    reasons = sorted(found, key=lambda why: (why.words, why.accuses))
    kinds = sorted({(why.kind, why.accuses) for why in reasons}, key=_kind_key)
    names = [kind for kind, _ in kinds]
    groups = sorted({course.group for course in courses.values()}, key=_group_key)
    return {
        "title": view.title,
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "refresh": refresh,
        "live": live,
        "versions": {"this page": f"fedmerit {__version__}", "recorded by": view.software},
        "rounds": [record.round for record in records],
        "metrics": _metrics(records),
        "groups": groups,
        "groupsAre": "behaviours" if _known(courses) else "flags",
        "reasons": [[why.words, names.index(why.kind)] for why in reasons],
        "kinds": [list(kind) for kind in kinds],
        "clients": [_client(name, course, groups, reasons) for name, course in ranked],
        "rejected": [
            [place, index[refused.client], Flag(refused.kind, refused.reason).words]
            for place, record in enumerate(records)
            for refused in record.rejected
        ],
        "agreement": _maps(records, index),
        "chain": None if view.chain is None else vars(view.chain),
        "settings": [[str(key), str(value)] for key, value in sorted(view.settings.items())],
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


def _known(courses: dict[str, Course]) -> bool:
    return any(course.behaviour is not None for course in courses.values())


def _client(
    name: str, course: Course, groups: Sequence[str], reasons: Sequence[Why]
) -> dict[str, Any]:
    number: dict[Why | None, int] = {why: place + 1 for place, why in enumerate(reasons)}
    number[None] = 0
    return {
        "name": name,
        "label": course.label,
        "group": groups.index(course.group),
        "mean": _short(course.mean),
        "half": _short(course.half_width),
        "flagged": course.flagged,
        "rejected": course.rejected,
        "kinds": course.kinds(),
        "paid": course.paid if any(pay is not None for pay in course.reward) else None,
        "worth": None if course.worth is None else [_short(part) for part in course.worth],
        "at": course.at,
        "score": [_short(value) for value in course.score],
        "weight": [_short(value) for value in course.weight],
        "evidence": _or_empty([_evidence(value) for value in course.p_value]),
        "epsilon": _or_empty([_short(value) for value in course.epsilon]),
        "why": [number[why] for why in course.why] if any(course.why) else [],
        "reward": _or_empty(course.reward),
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
    if p_value is None or math.isnan(p_value):
        return None
    return round(-math.log10(max(p_value, _LEAST_P)), 2) + 0.0


def _metrics(records: Sequence[RoundRecord]) -> list[list[Any]]:
    names = dict.fromkeys(name for record in records for name in record.metrics)
    return [[name, [_short(record.metrics.get(name)) for record in records]] for name in names]


def _maps(records: Sequence[RoundRecord], index: dict[str, int]) -> list[dict[str, Any]]:
    kept = [place for place, record in enumerate(records) if record.agreement]
    if not kept:
        return []
    largest = max(len(records[place].agreement) for place in kept)
    most = max(1, _MAP_BYTES // largest)
    if len(kept) > most:
        last = len(kept) - 1
        kept = sorted({kept[round(last - step * last / most)] for step in range(most)})
    return [_map(records[place], place, index) for place in kept]


def _map(record: RoundRecord, place: int, index: dict[str, int]) -> dict[str, Any]:
    size = clients_in(record.agreement)
    return {
        "at": place,
        "clients": [index[client.client] for client in record.clients[:size]],
        "order": clique_order(unpack_agreement(record.agreement)),
        "pairs": base64.b64encode(record.agreement).decode(),
    }
