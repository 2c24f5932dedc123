"""`fedmerit flower-demo`: a real Flower federation on this machine, one process per part."""

import math
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from fedmerit.cli.data import check_extra
from fedmerit.cli.options import Json, Seed
from fedmerit.cli.output import console, print_json, print_table, progress
from fedmerit.cli.report import print_page
from fedmerit.errors import SettingError
from fedmerit.report import open_source, write_report
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
    dataset: Annotated[str, typer.Option(help="digits needs nothing fetched.")] = "digits",
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
    from fedmerit.flower.demo import follow
    from fedmerit.flower.deployment import Deployment, example_app

    if ledger.exists():
        raise SettingError(f"the ledger of a demo must be new, got {ledger}; choose another")
    ledger.parent.mkdir(parents=True, exist_ok=True)
    chosen = _parse(behaviours, nodes)
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
                bar.update(task, completed=record.round, status=_status(record))
                if not as_json:
                    bar.console.print(f"round {record.round}: {_status(record)}")
            bar.update(task, description="processes", status="stop")
    write_report(open_source(ledger, None), out)
    _print(records, ledger, out, as_json=as_json)


def _parse(text: str, nodes: int) -> dict[int, str]:
    chosen: dict[int, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        number, equals, behaviour = entry.partition("=")
        if not equals or not number.strip().isdigit() or int(number) >= nodes:
            raise SettingError(
                f"behaviours must read number=behaviour with numbers below {nodes}, got {entry!r}"
            )
        chosen[int(number)] = behaviour.strip()
    return chosen


def _status(record: RoundRecord) -> str:
    flagged = sum(client.flagged for client in record.clients)
    accuracy = record.metrics.get("accuracy", math.nan)
    return f"accuracy {accuracy:.4f}, flagged {flagged}, rejected {len(record.rejected)}"


def _print(records: list[RoundRecord], ledger: Path, page: Path, *, as_json: bool) -> None:
    rows: dict[str, dict[str, Any]] = {}

    def row(client: str) -> dict[str, Any]:
        fresh = {"rounds": 0, "weight": 0.0, "flagged": 0, "rejected": 0, "reward": 0, "reason": ""}
        return rows.setdefault(client, fresh)

    for record in records:
        for entry in record.clients:
            found = row(entry.client)
            found["reward"] += entry.reward or 0
            if not math.isnan(entry.weight):
                found["rounds"] += 1
                found["weight"] += entry.weight
                found["flagged"] += int(entry.flagged)
                found["reason"] = entry.reason or found["reason"]
        for refusal in record.rejected:
            found = row(refusal.client)
            found["rejected"] += 1
            found["reason"] = refusal.reason
    if as_json:
        accuracy = [record.metrics.get("accuracy", math.nan) for record in records]
        clients = [{"client": client, **found} for client, found in rows.items()]
        files = {"ledger": str(ledger), "report": str(page)}
        print_json({**files, "accuracy": accuracy, "clients": clients})
        return
    print_table(
        "Who contributed what, by node id",
        ("client", "rounds", "weight", "flagged", "rejected", "reward", "reason"),
        [(client, *found.values()) for client, found in rows.items()],
    )
    console.print(f"ledger: {ledger}", soft_wrap=True)
    print_page(page)
