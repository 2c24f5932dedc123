"""`fedmerit demo`: a small real federation, and who contributed what to it."""

from pathlib import Path
from typing import Annotated

import typer

from fedmerit.cli.federations.data import check_extra
from fedmerit.cli.options import Json, Seed
from fedmerit.cli.output import console, print_json, print_table, progress
from fedmerit.cli.records.report import print_page
from fedmerit.report import RunView, write_report
from fedmerit.types import RoundRecord


def demo(
    seed: Seed = 0,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="The report page; a figure goes beside it, as .svg."),
    ] = Path("runs/demo.html"),
    as_json: Json = False,
) -> None:
    """Train a small federation in which 8 of 20 clients cheat, with FedAvg and with fedmerit.

    Ends with a report page about the run: who contributed, who was flagged and why, who is paid.
    With --json nothing is written.

    Example: fedmerit demo --seed 1
    """
    check_extra()
    from fedmerit.experiments.demo import BEHAVIOURS, CONFIG, LINES, draw_demo, run_demo
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
    figure = out.with_suffix(".svg")
    draw_demo(result, figure)
    records = result.records[DEFAULT.name]
    write_report(RunView("demo", records, {"seed": seed, "dishonest": BEHAVIOURS}), out)
    console.print(f"figure: {figure}", soft_wrap=True, markup=False, highlight=False)
    print_page(out)
    console.print("next:   fedmerit score --help, to score a round of your own", highlight=False)
