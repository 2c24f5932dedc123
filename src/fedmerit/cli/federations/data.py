"""`fedmerit data`: which data sets there are, fetch one, where they are kept."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedmerit.cli.help import Commands
from fedmerit.cli.names import DATASETS
from fedmerit.cli.options import Json, completed_from
from fedmerit.cli.output import console, print_json, print_table
from fedmerit.errors import MissingExtraError

app = typer.Typer(cls=Commands, help="Data sets for simulations.", no_args_is_help=True)

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="A folder with the published files (IDX, CSV), plain or .gz."),
]


def check_extra() -> None:
    """Say that the extra for simulations is missing, if it is; nothing of it is loaded."""
    if any(find_spec(name) is None for name in ("platformdirs", "sklearn", "torch")):
        raise MissingExtraError(
            "simulations need the extra sim, which brings PyTorch: pip install 'fedmerit[sim]'"
        )


@app.command("list")
def list_(
    as_json: Json = False,
) -> None:
    """List the data sets, and whether they are ready to use.

    Example: fedmerit data list
    """
    check_extra()
    from fedmerit.simulation.data.catalogue import CATALOGUE, is_ready

    rows = [(source.name, is_ready(source.name), source.origin) for source in CATALOGUE.values()]
    if as_json:
        print_json([{"name": name, "ready": ready, "from": origin} for name, ready, origin in rows])
    else:
        shown = [(name, "yes" if ready else "no", origin) for name, ready, origin in rows]
        print_table("Data sets", ("name", "ready", "from"), shown)


@app.command()
def fetch(
    name: Annotated[
        str,
        typer.Argument(
            help="A name that 'fedmerit data list' shows.",
            show_default=False,
            autocompletion=completed_from(DATASETS),
        ),
    ],
    data_dir: DataDir = None,
) -> None:
    """Fetch a data set, check it, and keep it in the cache folder.

    Example: fedmerit data fetch digits
    """
    check_extra()
    from fedmerit.simulation.data.catalogue import fetch as fetch_dataset

    with console.status(f"fetching {name}"):
        path = fetch_dataset(name, data_dir)
    console.print(f"{name} is ready" + (f": {path}" if path else ""), soft_wrap=True)


@app.command()
def path() -> None:
    """Print the folder that fetched data is kept in (set FEDMERIT_CACHE to move it).

    Example: fedmerit data path
    """
    check_extra()
    from fedmerit.simulation.data.cache import cache_folder

    print(cache_folder())
