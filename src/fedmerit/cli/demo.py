"""`fedmerit demo`: a small real federation, and who contributed what to it."""

from pathlib import Path
from typing import Annotated

import typer

from fedmerit.cli.data import check_extra
from fedmerit.cli.output import console, print_json, print_table, progress
from fedmerit.types import RoundRecord


def demo(
    seed: Annotated[int, typer.Option(help="Seed of every random draw.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Where the figure goes.")] = Path("runs/demo.png"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, draw nothing.")] = False,
) -> None:
    """Train a small federation in which 8 of 20 clients cheat, with FedAvg and with fedmerit.

    Example: fedmerit demo --seed 1
    """
    check_extra()
    from fedmerit.experiments.demo import CONFIG, LINES, draw_demo, run_demo
    from fedmerit.experiments.spec import DEFAULT, Line

    with progress() as bar:
        task = bar.add_task("rounds", total=len(LINES) * CONFIG.rounds, status="")

        def show(line: Line, record: RoundRecord) -> None:
            status = f"{line.label}: accuracy {record.metrics['accuracy']:.3f}"
            bar.update(task, advance=1, status=status)

        result = run_demo(seed, show)
    rows = result.clients()
    accuracy = {line.label: result.accuracy(line)[-1] for line in LINES}
    if as_json:
        columns = ("client", "behaviour", "score", "weight", "reason")
        clients = [dict(zip(columns, row, strict=True)) for row in rows]
        print_json({"accuracy": accuracy, "clients": clients})
        return
    print_table(
        f"Who contributed what, mean of {CONFIG.rounds} rounds ({DEFAULT.label})",
        ("client", "behaviour", "score", "weight", "flagged as"),
        rows,
    )
    for label, value in accuracy.items():
        console.print(f"accuracy after {CONFIG.rounds} rounds, {label}: {value:.3f}")
    draw_demo(result, out)
    console.print(f"figure: {out}", soft_wrap=True)
    console.print("next: fedmerit simulate --help, or score your own round (see README.md)")
