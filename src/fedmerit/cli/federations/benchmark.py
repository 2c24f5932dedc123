"""`fedmerit benchmark`: what the scores are worth, measured."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fedmerit.behaviours import BEHAVIOURS
from fedmerit.cli.federations.data import DataDir, check_extra
from fedmerit.cli.names import BENCHMARKED, BENCHMARKS, TASKS, check_name
from fedmerit.cli.options import Json, completed_from, listed
from fedmerit.cli.output import console, print_json, print_table, progress
from fedmerit.errors import SettingError
from fedmerit.validation import check_count


def benchmark(
    name: Annotated[
        str | None,
        typer.Argument(
            help="One of the names above.",
            show_default=False,
            autocompletion=completed_from(BENCHMARKS),
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the table (CSV), the page (Markdown) and the picture.")
    ] = Path("runs/benchmarks"),
    dataset: Annotated[
        str | None,
        typer.Option(
            help=f"Instead of the benchmark's own. Known: {listed(BENCHMARKED)}.",
            autocompletion=completed_from(BENCHMARKED),
        ),
    ] = None,
    data_dir: DataDir = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds.")] = None,
    seed: Annotated[int | None, typer.Option(help="The first of the seeds.")] = None,
    quick: Annotated[bool, typer.Option(help="One seed, a small version.")] = False,
    task: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Of models: this task only; may be repeated. Known: {listed(TASKS)}.",
            autocompletion=completed_from(TASKS),
        ),
    ] = None,
    behaviour: Annotated[
        list[str] | None,
        typer.Option(
            help="Of models: this behaviour only; may be repeated.",
            autocompletion=completed_from(BEHAVIOURS),
        ),
    ] = None,
    share: Annotated[
        list[float] | None,
        typer.Option(help="Of models: this share of the clients behaves so; may be repeated."),
    ] = None,
    keep_old: Annotated[
        bool, typer.Option(help="Take rows that other code decided as they are.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a benchmark and write its table, page and picture.

    It can be stopped at any moment: what is in the table of the folder is not run again unless the
    code that decides it changed. Runs of FedAvg and the median, which fedmerit's own code does not
    decide, are kept in a folder of their own, NAME.kept. With another --dataset than the
    benchmark's own the files are called NAME-DATASET.

    Example: fedmerit benchmark null --quick --dataset digits
    """
    name = check_name(name, BENCHMARKS)
    check_extra()
    from fedmerit.cli.federations.benchmark_models import run_models
    from fedmerit.experiments.benchmark.base import Benchmark, Setting
    from fedmerit.experiments.benchmark.registry import find_benchmark
    from fedmerit.experiments.benchmark.running import run_benchmark
    from fedmerit.simulation.data.datasets import load

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
            numbers, out, data_dir, quick, task or (), behaviour or (), share or (), keep_old
        )
    else:
        if task or behaviour or share:
            told = "tasks, behaviours and shares"
            raise SettingError(f"only models has {told} to choose from, got {name}")
        wanted = dataset or chosen.datasets[0]
        if wanted not in chosen.datasets:
            raise SettingError(f"{name} runs on {' or '.join(chosen.datasets)}, got {wanted}")
        data = load(wanted, data_dir)
        command = f"fedmerit benchmark {name} --dataset {wanted} --seed {first} --seeds {count}"
        command += " --quick" if quick else ""
        with progress() as bar:
            total = count * len(chosen.cells(quick)) * chosen.steps(quick)
            steps = bar.add_task("steps", total=total, status="")

            def tick(told: str) -> None:
                bar.update(steps, advance=1, status=told)

            setting = Setting(data, quick, tick, out / f"{chosen.stem(wanted)}.kept")
            rows, files = run_benchmark(chosen, numbers, setting, out, command, keep_old=keep_old)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    for table in chosen.tables(rows):
        print_table(table.title, table.columns, table.rows)
    for path in files:
        console.print(str(path), soft_wrap=True, highlight=False)
