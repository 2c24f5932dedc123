"""`fedmerit flower-demo`: a real Flower federation on this machine, one process per part."""

import math
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from fedmerit.behaviours import parse_behaviour
from fedmerit.cli.federations.data import check_extra
from fedmerit.cli.names import PICTURES
from fedmerit.cli.options import Json, Seed, completed_from
from fedmerit.cli.output import console, print_json, print_table, progress, shown
from fedmerit.cli.records.report import print_page
from fedmerit.errors import MissingExtraError, SettingError
from fedmerit.report import open_source, write_report
from fedmerit.server.history import Total, with_round
from fedmerit.types import RoundRecord

_SECONDS_PER_ROUND = 180.0
_EXIT_TERMINATED = 143


def flower_demo(
    nodes: Annotated[int, typer.Option(help="SuperNodes.", min=3)] = 6,
    rounds: Annotated[int, typer.Option(help="Rounds of training.", min=1)] = 4,
    behaviours: Annotated[
        str,
        typer.Option(
            help="Who is dishonest, by number: '2=stale, 4=nan'. Names as in 'simulate', "
            "and the faults nan and hang:ROUND."
        ),
    ] = "2=stale",
    dataset: Annotated[
        str,
        typer.Option(help="digits needs nothing fetched.", autocompletion=completed_from(PICTURES)),
    ] = "digits",
    seed: Seed = 0,
    ledger: Annotated[
        Path, typer.Option(help="Where every round is recorded; must not be there yet.")
    ] = Path("runs/flower-demo.ledger"),
    logs: Annotated[
        Path | None, typer.Option(help="Keep the processes' logs in this new folder.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The report page.")] = Path(
        "runs/flower-demo.html"
    ),
    as_json: Json = False,
) -> None:
    """Start a SuperLink and SuperNodes on 127.0.0.1, run the example app, stop all of it again.

    Every round goes to a ledger; a report page about the run is written at the end.

    Example: fedmerit flower-demo --nodes 4 --rounds 2 --behaviours 1=stale
    """
    check_extra()
    if find_spec("flwr") is None:
        raise MissingExtraError("the demo needs the extra flower: pip install 'fedmerit[flower]'")
    if ledger.exists():
        raise SettingError(f"the ledger of a demo must be new, got {ledger}; choose another")
    chosen = _parse(behaviours, nodes)
    if not as_json:  # what follows takes a while, beginning with the import of Flower
        for line in _cast(nodes, chosen):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    from fedmerit.flower.demo import follow
    from fedmerit.flower.deployment import Deployment, example_app

    ledger.parent.mkdir(parents=True, exist_ok=True)
    # Stopping the demo in any way must stop what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_EXIT_TERMINATED))
    records: list[RoundRecord] = []
    with tempfile.TemporaryDirectory(prefix="fedmerit-flower-") as scratch, progress() as bar:
        folder = Path(scratch) if logs is None else logs
        task = bar.add_task("SuperLink", total=rounds, status="starts")
        with Deployment(folder) as deployment:
            for number in range(nodes):
                behaviour = chosen.get(number, "honest")
                config = f'partition-id={number} num-partitions={nodes} behaviour="{behaviour}"'
                deployment.start_node(f"node-{number}", config)
            bar.update(task, description="round", status=f"{nodes} SuperNodes start")
            settings = {
                "dataset": dataset,
                "num-server-rounds": rounds,
                "min-nodes": nodes,
                "seed": seed,
                "ledger": str(ledger.absolute()),
            }
            run = deployment.submit(example_app(), settings)
            limit = _SECONDS_PER_ROUND * (rounds + 1)
            for record in follow(deployment, run, ledger, rounds, seconds=limit):
                records.append(record)
                bar.update(task, completed=record.round, status=shown(_status(record)))
                if not as_json:
                    bar.console.print(f"round {record.round}: {shown(_status(record))}")
            bar.update(task, description="processes", status="stop")
    write_report(open_source(ledger, None), out)
    _print(contributions(records, chosen), records, ledger, out, as_json=as_json)


def _cast(nodes: int, behaviours: Mapping[int, str]) -> list[str]:
    """Return who takes part, by name and role."""
    told = [f"site-{number}: {behaviours.get(number, 'honest')}" for number in range(nodes)]
    return [
        f"starting a SuperLink and {nodes} SuperNodes on 127.0.0.1, each a process; the first "
        "round takes longest",
        *(f"  {line}" for line in told),
    ]


def _parse(text: str, nodes: int) -> dict[int, str]:
    chosen: dict[int, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        number, equals, behaviour = entry.partition("=")
        if not equals or not number.strip().isdigit() or int(number) >= nodes:
            raise SettingError(
                f"behaviours must read number=behaviour with numbers below {nodes}, got {entry!r}"
            )
        parse_behaviour(behaviour)  # a node that cannot read it would only fail in every round
        chosen[int(number)] = behaviour.strip()
    return chosen


def _status(record: RoundRecord) -> str:
    flagged = [client.label or client.client for client in record.clients if client.flagged]
    names = f" ({', '.join(flagged)})" if flagged else ""
    accuracy = record.metrics.get("accuracy", math.nan)
    return (
        f"accuracy {accuracy:.4f}, flagged {len(flagged)}{names}, rejected {len(record.rejected)}"
    )


def contributions(
    records: Sequence[RoundRecord], behaviours: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Return what each client came to, with its name, and what it was told to do.

    The example's clients call themselves site-0, site-1, ... by their number in `behaviours`. A
    client whose replies never were readable has no name.
    """
    totals: dict[str, Total] = {}
    for record in records:
        totals = with_round(totals, record)
    told = {f"site-{number}": behaviour for number, behaviour in behaviours.items()}
    return [
        {
            "client": client,
            "name": total.label or "",
            "told to be": told.get(total.label, "honest") if total.label else "",
            "rounds": total.rounds,
            "weight": total.weight,
            "flagged": total.flagged,
            "rejected": total.rejected,
            "reward": total.reward,
            "reason": total.flag.words if total.flag is not None else "",
        }
        for client, total in totals.items()
    ]


def _print(
    rows: Sequence[Mapping[str, Any]],
    records: Sequence[RoundRecord],
    ledger: Path,
    page: Path,
    *,
    as_json: bool,
) -> None:
    if as_json:
        accuracy = [record.metrics.get("accuracy", math.nan) for record in records]
        files = {"ledger": str(ledger), "report": str(page)}
        print_json({**files, "accuracy": accuracy, "clients": list(rows)})
        return
    columns = tuple(rows[0]) if rows else ()
    print_table(
        "Who contributed what, added up over the rounds",
        columns,
        [tuple(row.values()) for row in rows],
    )
    console.print(f"ledger: {ledger}", soft_wrap=True)
    print_page(page)
