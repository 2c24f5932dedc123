"""The `fedmerit` application: its commands, and how errors become messages and exit codes."""

import io
import signal
import sys
from typing import Annotated

import typer

from fedmerit import __version__
from fedmerit.cli import audit, score, warm_up
from fedmerit.cli.federations import benchmark, data, demo, flower_demo, reproduce, simulate
from fedmerit.cli.help import Commands, flow_help, with_names
from fedmerit.cli.names import BENCHMARKS, EXPERIMENTS
from fedmerit.cli.output import console, errors, shown
from fedmerit.cli.records import ledger, report, serve, statement
from fedmerit.errors import FedMeritError

app = typer.Typer(
    name="fedmerit",
    cls=Commands,
    context_settings={"help_option_names": ["--help", "-h"]},  # commands inherit it
    pretty_exceptions_show_locals=False,
)
app.command("demo")(demo.demo)
app.command("simulate")(simulate.simulate)
app.command("score")(score.score)
app.command("report")(report.report)
app.command("serve")(serve.serve)
app.command("reproduce", help=with_names(reproduce.reproduce, EXPERIMENTS))(reproduce.reproduce)
app.command("benchmark", help=with_names(benchmark.benchmark, BENCHMARKS))(benchmark.benchmark)
app.add_typer(data.app, name="data")
app.command("audit")(audit.audit)
app.add_typer(ledger.app, name="ledger")
app.add_typer(statement.app, name="statement")
app.command("flower-demo")(flower_demo.flower_demo)
app.command("warm-up")(warm_up.warm_up)


START = """Who contributed what to a federation, without any test data.

Three commands to start with:

  fedmerit score updates.npz       a round of your own: an array per client
  fedmerit serve run.ledger        a page that follows a run as it is written
  fedmerit demo                    a small federation in which 8 of 20 clients cheat
                                   (trains: pip install 'fedmerit[sim]')

fedmerit --help shows all commands, fedmerit COMMAND --help one of them."""


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Who contributed what to a federation, without any test data.

    Exit codes: 0 all went well; 1 the answer is no (a ledger that does not verify, somebody flagged
    under --strict); 2 what was asked for cannot be done; 130 interrupted.

    Example: fedmerit --version
    """
    if version:
        print(f"fedmerit {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        console.print(START, markup=False, highlight=False, soft_wrap=True)


flow_help(app)
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


def run() -> None:
    """Run the application; an error of ours is one sentence on stderr, not a traceback."""
    signal.signal(signal.SIGTERM, _terminated)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal cannot write is escaped
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except FedMeritError as error:
        # Made harmless: a message may quote what a client sent.
        errors.print(f"[bold red]error:[/] {shown(str(error))}", soft_wrap=True, highlight=False)
        sys.exit(EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        errors.print("interrupted", highlight=False)
        sys.exit(EXIT_INTERRUPTED)
    except RecursionError:
        errors.print("[bold red]error:[/] what was read is nested too deeply", highlight=False)
        sys.exit(EXIT_BAD_INPUT)
    except MemoryError as error:
        errors.print(f"[bold red]error:[/] out of memory: {shown(str(error))}", highlight=False)
        sys.exit(EXIT_BAD_INPUT)


def _terminated(_signal: int, _frame: object) -> None:
    """End as on Ctrl-C, so that temporary folders and locks go."""
    sys.exit(EXIT_TERMINATED)
