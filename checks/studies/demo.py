"""The table of docs/results/demo.md: ``python -m checks.studies.demo``.

The federation of ``fedmerit demo`` with its own seed; ``python -m checks.pictures`` draws it.
"""

from collections.abc import Iterable

from checks import ROOT
from checks.pages.parts import write_parts
from fedmerit.behaviours import Noise, RandomModel
from fedmerit.experiments.demo import LINES, Demo, run_demo
from fedmerit.experiments.fingerprint import Sources
from fedmerit.experiments.spec import DEFAULT
from fedmerit.types import ClientRecord

PAGE = ROOT / "docs" / "results" / "demo.md"


def table(demo: Demo) -> list[str]:
    """Return what became of honest and of dishonest clients under both lines."""
    rounds = len(demo.records[DEFAULT.name])
    clients = [c for record in demo.records[DEFAULT.name] for c in record.clients]
    honest, others = (
        [c for c in clients if (c.behaviour == "honest") is yes] for yes in (True, False)
    )
    found = {c.client for c in others if accused(c)}
    rows: dict[str, Iterable[str]] = {
        f"test accuracy after {rounds} rounds": (
            f"{demo.accuracy(line)[-1]:.3f}" for line in LINES
        ),
        f"weight of the {names(honest)} honest clients together, mean over rounds": (
            f"{weight(demo, line.name, honest=True):.3f}" for line in LINES
        ),
        f"weight of the {names(others)} others together, mean over rounds": (
            f"{weight(demo, line.name, honest=False):.3f}" for line in LINES
        ),
        f"of the {names(others)} others, flagged in at least one round": ("-", str(len(found))),
        f"of their {len(others)} reports, flagged": ("-", share(others)),
        f"of the {len(honest)} reports of honest clients, flagged": ("-", share(honest)),
    }
    head = ["| | " + " | ".join(line.label for line in LINES) + " |", "|---|---:|---:|"]
    return head + [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]


def accused(client: ClientRecord) -> bool:
    return client.flag is not None and client.flag.accuses


def names(records: list[ClientRecord]) -> int:
    return len({record.client for record in records})


def share(records: list[ClientRecord]) -> str:
    return f"{sum(map(accused, records)) / len(records):.0%}".replace("%", " %")


def weight(demo: Demo, line: str, *, honest: bool) -> float:
    rounds = demo.records[line]
    return sum(
        client.weight
        for record in rounds
        for client in record.clients
        if (client.behaviour == "honest") is honest
    ) / len(rounds)


def main() -> None:
    lines = table(run_demo(0, lambda _line, _record: None))
    write_parts(PAGE, {"table": "\n".join(lines)}, Sources.of(main, RandomModel, Noise))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
