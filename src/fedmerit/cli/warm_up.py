"""`fedmerit warm-up`: compile ahead, so that nobody waits for it in a first round."""

import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedmerit.cli.options import Json
from fedmerit.cli.output import console, print_json, progress
from fedmerit.kernels.compiling import kept_in, told
from fedmerit.server.warm_up import steps


def warm_up(
    everything: Annotated[
        bool, typer.Option("--all", help="Every scorer and rule, not only the defaults.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compile kernels ahead, once per machine: the first round then starts at once.

    What is compiled already is left alone. NUMBA_CACHE_DIR says where compiled kernels are kept;
    without it they go beside the package or, where that cannot be written, to the user's cache.

    Example: fedmerit warm-up
    """
    todo = steps(everything)
    if find_spec("torch") and find_spec("sklearn"):
        todo["training in simulations"] = _train
    folder, begun = kept_in(), time.monotonic()
    if not as_json:
        console.print("compiling kernels, once per machine", highlight=False)
    done = []
    with progress() as bar:
        task = bar.add_task("compiles", total=len(todo), status="")
        for name, step in todo.items():
            kernels, seconds = _compile(step, lambda kernel: bar.update(task, status=kernel))
            done.append({"step": name, "kernels": kernels, "seconds": round(seconds, 1)})
            bar.update(task, advance=1)
            if not as_json:
                told_of = f"{kernels} kernels compiled, {seconds:.1f} s" if kernels else "was there"
                bar.console.print(f"  {name}: {told_of}", highlight=False)
    if as_json:
        print_json({"folder": folder, "steps": done})
        return
    seconds = time.monotonic() - begun
    console.print(
        f"done in {seconds:.0f} s; kept in {folder}", soft_wrap=True, markup=False, highlight=False
    )


def _compile(step: Callable[[], None], tell: Callable[[str], None]) -> tuple[int, float]:
    """Run a step; return how many kernels it compiled, and the seconds it took."""
    names: list[str] = []

    def note(kernel: str) -> None:
        names.append(kernel)
        tell(kernel)

    begun = time.monotonic()
    with told(note):
        step()
    return len(names), time.monotonic() - begun


def _train() -> None:
    """Run one round of a small federation."""
    from fedmerit.simulation.config import FederationConfig, ModelChoice
    from fedmerit.simulation.data.datasets import load
    from fedmerit.simulation.federation import Federation
    from fedmerit.simulation.run import run

    config = FederationConfig(users=4, per_round=4, rounds=1, model=ModelChoice("mlp", hidden=10))
    with tempfile.TemporaryDirectory() as folder:
        run(Federation(config, load("digits")), folder=Path(folder))
