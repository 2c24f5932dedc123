"""Every command says how it is used, with an example that works."""

import http.client
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from fedmerit.cli import names
from fedmerit.cli.app import app
from fedmerit.cli.options import completed_from, completed_shares
from fedmerit.errors import MissingExtraError, UnknownNameError
from fedmerit.experiments.benchmark.null import benchmark as null
from fedmerit.ledger import Ledger
from fedmerit.ledger.proof.statement import to_json
from tests.ledger.builders import make_ledger
from tests.rounds import public_round


def commands(command: click.Command, name: str = "fedmerit") -> dict[str, click.Command]:
    """All commands that do something, by what one types."""
    children = getattr(command, "commands", {})
    found = {} if children else {name: command}
    for child in children.values():
        found |= commands(child, f"{name} {child.name}")
    return found


COMMANDS = commands(typer.main.get_command(app))
TRAINING = {f"fedmerit {name}" for name in ("benchmark", "demo", "flower-demo", "reproduce")}


ENDLESS = {"fedmerit serve"}


def examples(command: click.Command) -> list[str]:
    return re.findall(r"Example: (fedmerit .*)", re.sub(r"\\\n\s+", "", command.help or ""))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """A folder with the files that the examples speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDMERIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(null, "QUICK_NULL_ROUNDS", 4)
    made = public_round()
    np.savez("updates.npz", **{f"client {i}": row for i, row in enumerate(made.honest)})
    np.savez("last_update.npz", public=made.last_update)
    make_ledger(tmp_path / "run.ledger")
    with Ledger.open(tmp_path / "run.ledger", read_only=True) as ledger:
        Path("statement.json").write_text(to_json(ledger.statement("client 1")))
    return tmp_path


def marked(name):
    mark = pytest.mark.federation if name == "fedmerit flower-demo" else pytest.mark.slow
    return pytest.param(name, marks=mark if name in TRAINING else ())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_and_option_says_what_it_is(name):
    for parameter in COMMANDS[name].params:
        assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_help_flows_on_terminals_of_any_width():
    """A line break of a docstring is for the source; lists keep theirs."""
    root = typer.main.get_command(app)
    for command in [root, *COMMANDS.values()]:
        for part in command.help.split("\n\n"):
            assert "\n" not in part.strip("\n") or part.lstrip("\n").startswith("\b")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", [marked(name) for name in sorted(COMMANDS.keys() - ENDLESS)])
def test_every_command_has_an_example_that_runs(name):
    found = examples(COMMANDS[name])
    assert found, f"{name} --help has no line 'Example: {name} ...'"
    for example in found:
        assert example.startswith(name)
        result = CliRunner().invoke(app, shlex.split(example)[1:])
        assert result.exit_code == 0, (example, result.output, result.exception)
        assert result.stdout


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", sorted(ENDLESS))
def test_a_command_that_goes_on_is_ended_by_ctrl_c(name):
    (example,) = examples(COMMANDS[name])
    call = [sys.executable, "-c", "from fedmerit.cli import main; main()"]
    process = subprocess.Popen(
        [*call, *shlex.split(example)[1:], "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline().startswith("open: http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0].endswith("ended\n")
    assert process.returncode == 0


def test_a_folder_without_runs_is_served_and_said_to_be_empty(tmp_path):
    arguments = ["serve", str(tmp_path), "--port", "0", "--host", "0.0.0.0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fedmerit", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        first, second = process.stdout.readline(), process.stdout.readline()
        port, token = re.match(r"open: http://0\.0\.0\.0:(\d+)/\?token=(\S+) or ", first).groups()
        assert first.endswith(f" or http://{socket.gethostname()}:{port}/?token={token}\n")
        assert second == (
            f"there is no run in {tmp_path} yet; the page shows one as soon as there is\n"
        )
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
        connection.request("GET", "/", headers={"Cookie": f"fedmerit={token}"})
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        process.terminate()
        process.communicate()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_is_explained_and_means_one_thing(name):
    meaning = {"--json": "Print JSON instead of tables.", "--out": None, "--seed": None}
    for option in COMMANDS[name].params:
        if isinstance(option, click.Option) and option.name != "help":
            assert option.help, f"{name} {option.opts[0]} has no help"
            if meaning.get(option.opts[0]):
                assert option.help == meaning[option.opts[0]]
    names = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert not names & {"--output", "--outfile", "--rng", "--random-seed"}


def test_misspelt_commands_and_options_are_met_with_the_nearest():
    text = CliRunner().invoke(app, ["scor", "x"]).output
    assert "score" in text
    text = CliRunner().invoke(app, ["score", "x", "--metod", "merit"]).output
    assert "--method" in text


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("scor x", "score"),
        ("ledger sho x", "show"),
        ("data lis", "list"),
        ("statement verfy x.json", "verify"),
    ],
)
def test_the_command_that_was_meant_is_named_once(typed, meant):
    result = CliRunner().invoke(app, typed.split(), env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert result.output.count(f"Did you mean '{meant}'?") == 1
    assert result.output.count("Did you mean") == 1


def test_a_ledger_that_is_called_nearly_like_a_command_is_a_ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_ledger(tmp_path / "verif")
    result = CliRunner().invoke(app, ["statement", "verif", "--client", "client 1"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", ["fedmerit", "fedmerit ledger", *sorted(COMMANDS)])
def test_help_is_also_a_letter_and_shown_once(name):
    short, long = (CliRunner().invoke(app, [*name.split()[1:], how]) for how in ("-h", "--help"))
    assert short.exit_code == 0, short.output
    assert short.output == long.output
    assert len(re.findall(r"Show this message", short.output)) == 1


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "fedmerit", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("fedmerit ")


def test_without_the_extra_nothing_can_be_done_and_stderr_says_what_to_install():
    hidden = "import sys; sys.modules['typer'] = None; from fedmerit.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "The command line needs an extra: pip install 'fedmerit[cli]'\n"


@pytest.mark.parametrize("missing", ["torch", "sklearn", "platformdirs"])
@pytest.mark.parametrize("typed", ["demo", "simulate", "data list", "benchmark null"])
def test_simulations_say_which_extra_they_need(monkeypatch, missing, typed):
    monkeypatch.setitem(sys.modules, missing, None)
    error = CliRunner().invoke(app, typed.split()).exception
    assert isinstance(error, MissingExtraError)
    assert str(error) == (
        "simulations need the extra sim, which brings PyTorch: pip install 'fedmerit[sim]'"
    )


@pytest.mark.parametrize(
    ("command", "known", "mistyped", "nearest"),
    [
        ("reproduce", names.EXPERIMENTS, "mnist-nois", "mnist-noise"),
        ("benchmark", names.BENCHMARKS, "atacks", "attacks"),
    ],
)
def test_names_are_told_before_extras_are_asked_for(monkeypatch, command, known, mistyped, nearest):
    monkeypatch.setitem(sys.modules, "torch", None)
    listed = f"NAME must be one of {', '.join(sorted(known))}, got "
    error = CliRunner().invoke(app, [command]).exception
    assert isinstance(error, UnknownNameError)
    assert str(error) == f"{listed}none"
    error = CliRunner().invoke(app, [command, mistyped]).exception
    assert isinstance(error, UnknownNameError)
    assert str(error) == f"{listed}{mistyped!r}; did you mean {nearest!r}?"
    assert isinstance(CliRunner().invoke(app, [command, nearest]).exception, MissingExtraError)


def test_the_command_alone_shows_where_to_start():
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 0
    started = re.findall(r"^  fedmerit (\S+)", result.stdout, re.M)
    assert started == ["score", "serve", "demo"]
    assert re.search(
        r"^  fedmerit demo .*\n +\(trains: pip install 'fedmerit\[sim\]'\)$", result.stdout, re.M
    )
    assert {f"fedmerit {name}" for name in started} <= COMMANDS.keys()


def test_names_are_those_of_the_registries_and_help_lists_them():
    from fedmerit.experiments.benchmark.base import Benchmark
    from fedmerit.experiments.benchmark.models.tasks.registry import TASKS
    from fedmerit.experiments.benchmark.registry import BENCHMARKS
    from fedmerit.experiments.families import FAMILIES
    from fedmerit.simulation.data.catalogue import CATALOGUE
    from fedmerit.simulation.data.datasets import SOURCES

    assert names.EXPERIMENTS.keys() == FAMILIES.keys()
    assert names.BENCHMARKS.keys() == BENCHMARKS.keys()
    assert names.DATASETS.keys() == CATALOGUE.keys()
    assert set(names.PICTURES) == SOURCES.keys()
    assert set(names.TASKS) == TASKS.keys()
    takes_data = [kind for kind in BENCHMARKS.values() if issubclass(kind, Benchmark)]
    assert set(names.BENCHMARKED) == {name for kind in takes_data for name in kind.datasets}
    for command, listed in (("reproduce", names.EXPERIMENTS), ("benchmark", names.BENCHMARKS)):
        shown = CliRunner().invoke(app, [command, "--help"]).stdout
        for name, line in listed.items():
            assert re.search(rf"^ +{name} +{re.escape(line)}", shown, re.M), name


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("reproduce din-w", ["din-weights"]),
        ("benchmark n", ["null"]),
        ("benchmark null --dataset d", ["digits"]),
        ("benchmark null --dataset k", []),
        ("data fetch kuai", ["kuairand"]),
        ("simulate --dataset movie", ["movielens-1m"]),
        ("simulate --model le", ["lenet5"]),
        ("simulate --weighting ga", ["gated"]),
        ("simulate --method mer", ["merit"]),
        ("simulate --behaviours 20%sta", ["20%stale"]),
        ("simulate --behaviours sta", []),
        ("simulate --reward pos", ["positive"]),
        ("benchmark models --task lora", ["lora"]),
        ("benchmark models --behaviour sta", ["stale"]),
        ("flower-demo --dataset fash", ["fashion-mnist"]),
        ("ledger export run.ledger x --format par", ["parquet"]),
    ],
)
def test_shells_complete_what_commands_take(typed, offered):
    words = f"fedmerit {typed}"
    complete = {
        "_FEDMERIT_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    result = CliRunner().invoke(app, [], env=complete, prog_name="fedmerit")
    assert result.output.split() == offered


@pytest.mark.parametrize("typed", ["20% stale, 10% noi", "20%noi"])
def test_the_name_after_the_last_percentage_is_completed(typed):
    assert completed_shares(["noise", "stale"])(typed) == [f"{typed}se"]


def test_shells_complete_without_what_trains():
    """A shell waits for the answer."""
    words = "fedmerit benchmark models --task lor"
    code = (
        "import atexit, sys\nsys.argv[0] = 'fedmerit'\nfrom fedmerit.cli import main\n"
        "heavy = {'torch', 'flwr', 'sklearn'}\n"
        "atexit.register(lambda: print(*sorted(heavy & sys.modules.keys()), file=sys.stderr))\n"
        "main()"
    )
    complete = {
        "_FEDMERIT_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | complete,
    )
    assert (done.stdout.split(), done.stderr.split()) == (["lora"], [])


def test_shells_complete_names():
    assert completed_from(["merit", "median", "exact"])("me") == ["median", "merit"]
    complete = {
        "_FEDMERIT_COMPLETE": "complete_bash",
        "COMP_WORDS": "fedmerit sc",
        "COMP_CWORD": "1",
    }
    result = CliRunner().invoke(app, [], env=complete, prog_name="fedmerit")
    assert result.output.split() == ["score"]


def run(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    code = "from fedmerit.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_exit_codes_are_for_scripts():
    assert run("ledger", "verify", "run.ledger").returncode == 0
    bad = run("score", "updates.npz", "--method", "merits")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "did you mean 'merit'?" in bad.stderr
    assert "Traceback" not in bad.stderr
    content = Path("run.ledger").read_bytes()
    Path("run.ledger").write_bytes(content.replace(b"no agreement", b"no agreemenT"))
    assert run("ledger", "verify", "run.ledger").returncode == 1


@pytest.mark.usefixtures("folder")
def test_a_pipe_gets_plain_text():
    text = run("ledger", "show", "run.ledger").stdout
    assert text.isascii()
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_the_page_about_commands_has_all_of_them_in_their_own_words():
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(fedmerit .*?)` \| (.*?) \|", page, re.M))
    first = {
        name: " ".join(re.split(r"(?<=\.)\s", (command.help or "").strip(), maxsplit=1)[0].split())
        for name, command in COMMANDS.items()
    }
    assert told == first
