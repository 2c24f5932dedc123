"""`fedmerit benchmark`: what the scores are worth, measured."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fedmerit.cli.data import DataDir, check_extra
from fedmerit.cli.names import BENCHMARKS, DATASETS
from fedmerit.cli.options import Json, completed_from
from fedmerit.cli.output import console, print_json, print_table, progress
from fedmerit.errors import SettingError
from fedmerit.validation import check_count


def benchmark(
    name: Annotated[
        str,
        typer.Argument(
            help="One of the names above.",
            show_default=False,
            autocompletion=completed_from(BENCHMARKS),
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for the table (CSV), the page (Markdown) and the picture.")
    ] = Path("runs/benchmarks"),
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Instead of the benchmark's own.", autocompletion=completed_from(DATASETS)
        ),
    ] = None,
    data_dir: DataDir = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds.")] = None,
    seed: Annotated[int | None, typer.Option(help="The first of the seeds.")] = None,
    quick: Annotated[bool, typer.Option(help="One seed, a small version.")] = False,
    task: Annotated[
        list[str] | None, typer.Option(help="Of models: this task only; may be repeated.")
    ] = None,
    behaviour: Annotated[
        list[str] | None, typer.Option(help="Of models: this behaviour only; may be repeated.")
    ] = None,
    keep_old: Annotated[
        bool, typer.Option(help="Of models: take rows that other code decided as they are.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a benchmark and write its table, page and picture, after every seed.

    Seeds that are in the table of the folder are not run again unless the code that decides them
    changed. The benchmark models goes on cell by cell; FedAvg and the median, which fedmerit's own
    code does not decide, are kept in the folder models.kept.

    Example: fedmerit benchmark null --quick --dataset digits
    """
    check_extra()
    from fedmerit.cli.benchmark_models import run_models
    from fedmerit.experiments.benchmark.base import Benchmark, kept_rows, write
    from fedmerit.experiments.benchmark.registry import find_benchmark
    from fedmerit.simulation.datasets import load

    chosen = find_benchmark(name)
    count = check_count("seeds", seeds or (1 if quick else chosen.seeds), least=1)
    first = check_count("seed", chosen.first_seed if seed is None else seed, least=0)
    numbers = range(first, first + count)
    rows: list[Any] = []
    files: list[Path] = []
    if not isinstance(chosen, Benchmark):
        if dataset is not None:
            raise SettingError(f"{name} has tasks with data of their own, got dataset {dataset}")
        rows, files = run_models(
            numbers, out, data_dir, quick, task or (), behaviour or (), keep_old
        )
    else:
        if task or behaviour:
            raise SettingError(f"only models has tasks and behaviours to choose from, got {name}")
        wanted = dataset or chosen.datasets[0]
        if wanted not in chosen.datasets:
            raise SettingError(f"{name} runs on {' or '.join(chosen.datasets)}, got {wanted}")
        data = load(wanted, data_dir)
        command = f"fedmerit benchmark {name} --dataset {wanted} --seed {first} --seeds {count}"
        command += " --quick" if quick else ""
        inputs = f"{data.name}{' quick' if quick else ''}"
        known = kept_rows(chosen, out, inputs)
        code = chosen.sources.code.digest
        with progress() as bar:
            steps = bar.add_task("steps", total=count * chosen.steps(quick), status="")
            for number in numbers:
                found = [row for row in known if row.seed == number]
                if found:
                    bar.update(steps, advance=chosen.steps(quick), status=f"seed {number} is there")
                else:
                    found = [
                        replace(row, code=code)
                        for row in chosen.run(
                            number,
                            data,
                            quick,
                            lambda told: bar.update(steps, advance=1, status=told),
                        )
                    ]
                rows += found
                files = write(chosen, rows, out, command, inputs)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    for table in chosen.tables(rows):
        print_table(table.title, table.columns, table.rows)
    for path in files:
        console.print(str(path), soft_wrap=True, highlight=False)
