"""`fedmerit benchmark`: what the scores are worth, measured."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fedmerit.cli.data import DataDir, check_extra
from fedmerit.cli.options import Json
from fedmerit.cli.output import console, print_json, print_table, progress
from fedmerit.errors import SettingError
from fedmerit.validation import check_count


def benchmark(
    name: Annotated[
        str,
        typer.Argument(
            help="attacks (what does every behaviour earn?), contribution (do scores rank clients "
            "by what they brought?), free-riders (TU Wien's detection benchmark) or null (how "
            "often are clients without work accepted?)."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for the table (CSV), the page (Markdown) and the picture.")
    ] = Path("runs/benchmarks"),
    dataset: Annotated[str | None, typer.Option(help="Instead of the benchmark's own.")] = None,
    data_dir: DataDir = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds.")] = None,
    seed: Annotated[int | None, typer.Option(help="The first of the seeds.")] = None,
    quick: Annotated[bool, typer.Option(help="One seed, a small version.")] = False,
    as_json: Json = False,
) -> None:
    """Run a benchmark and write its table, page and picture, after every seed.

    Example: fedmerit benchmark null --quick --dataset digits
    """
    check_extra()
    from fedmerit.experiments.benchmark.base import write
    from fedmerit.experiments.benchmark.registry import find_benchmark
    from fedmerit.simulation.datasets import load

    chosen = find_benchmark(name)
    wanted = dataset or chosen.datasets[0]
    if wanted not in chosen.datasets:
        raise SettingError(f"{name} runs on {' or '.join(chosen.datasets)}, got {wanted}")
    count = check_count("seeds", seeds or (1 if quick else chosen.seeds), least=1)
    first = check_count("seed", chosen.first_seed if seed is None else seed, least=0)
    data = load(wanted, data_dir)
    command = f"fedmerit benchmark {name} --dataset {wanted} --seed {first} --seeds {count}"
    command += " --quick" if quick else ""
    rows: list[Any] = []
    files: list[Path] = []
    with progress() as bar:
        task = bar.add_task("steps", total=count * chosen.steps(quick), status="")
        for number in range(first, first + count):
            rows += chosen.run(
                number, data, quick, lambda status: bar.update(task, advance=1, status=status)
            )
            files = write(chosen, rows, out, command)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    for table in chosen.tables(rows):
        print_table(table.title, table.columns, table.rows)
    for path in files:
        console.print(str(path), soft_wrap=True, highlight=False)
