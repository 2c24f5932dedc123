"""Processes to be killed, each forked from one that has imported everything and so starts at once.

Run as a script it reads one order per line, as JSON, forks a process that runs the `fedmerit`
command as ordered, waits for its end, and answers with how it ended and what it said.
"""

import atexit
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from checks import ROOT

DEADLY_ROUND = 2
_SPARE = 2**20  # bytes left to a process that is to run out of memory


@dataclass(frozen=True)
class Order:
    """A command and what is to happen to it.

    Attributes
    ----------
    arguments : list of str
        Of the `fedmerit` command.
    moment : str
        One of `MOMENTS`, in the second round; empty for none.
    death : str
        "SIGTERM", "SIGKILL", "SIGINT" or "memory".
    largest_file : int or None
        Bytes after which the system refuses to make a file longer.
    """

    arguments: list[str]
    moment: str = ""
    death: str = ""
    largest_file: int | None = None


@dataclass(frozen=True)
class End:
    """How a process ended: exit code, or minus the signal."""

    status: int
    output: str = field(repr=False)
    complaint: str

    def check_named(self) -> None:
        """Check that it did not end with an exception that nobody gave a name."""
        assert "Traceback" not in self.complaint, self.complaint.strip().splitlines()[-1]


def command(*arguments: object, **order: Any) -> End:
    """Run a `fedmerit` command in a process of its own."""
    sent = Order(list(map(str, arguments)), **order)
    nursery, answers = _nursery()
    assert nursery.stdin is not None
    nursery.stdin.write(json.dumps(asdict(sent)).encode() + b"\n")
    nursery.stdin.flush()
    return End(**json.loads(answers.readline()))


@cache
def _nursery() -> tuple[subprocess.Popen[bytes], Any]:
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "checks.faults.nursery", str(write_end)],
        stdin=subprocess.PIPE,
        pass_fds=[write_end],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
    )
    os.close(write_end)
    answers = os.fdopen(read_end)

    @atexit.register
    def stop() -> None:
        assert process.stdin is not None
        process.stdin.close()  # no more orders: it ends by itself
        process.wait()
        answers.close()

    return process, answers


def main(answers: int) -> None:
    """Take orders until there are no more."""
    from fedmerit.cli import main as fedmerit
    from fedmerit.simulation import federation, run  # noqa: F401
    from fedmerit.simulation.data.datasets import load

    load("digits")
    for line in sys.stdin:
        order = Order(**json.loads(line))
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                os.close(answers)
                _obey(order, fedmerit, out.fileno(), err.fileno())
            _, status = os.waitpid(child, 0)
            out.seek(0)
            err.seek(0)
            end = End(
                os.waitstatus_to_exitcode(status),
                out.read().decode(errors="replace"),
                err.read().decode(errors="replace"),
            )
        os.write(answers, json.dumps(asdict(end)).encode() + b"\n")


def _obey(order: Order, fedmerit: Callable[[], None], out: int, err: int) -> None:
    import traceback

    code = 70
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (out, 1), (err, 2)):
            os.dup2(source, target)
        if order.largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (order.largest_file, order.largest_file))
        if order.moment:
            MOMENTS[order.moment](lambda: _die(order.death))
        sys.argv = ["fedmerit", *order.arguments]
        fedmerit()
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 0 if ending.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _die(death: str) -> None:
    if death == "memory":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _SPARE, used + _SPARE))
        bytearray(64 * _SPARE)
        raise SystemExit("there was memory left")
    os.kill(os.getpid(), signal.Signals[death])


def _phase(name: str) -> Callable[[Callable[[], None]], None]:
    """Die on the way into a phase of the round."""

    def prepare(die: Callable[[], None]) -> None:
        from fedmerit.simulation.federation import Clock

        original, seen = Clock.phase, [0]

        @contextlib.contextmanager
        def phase(self: Clock, entered: str) -> Iterator[None]:
            seen[0] += entered == name
            if entered == name and seen[0] == DEADLY_ROUND:
                die()
            with original(self, entered):
                yield

        Clock.phase = phase  # type: ignore[assignment, method-assign]

    return prepare


def _around(
    owner: str, name: str, *, after: bool = False, before: Callable[..., None] | None = None
) -> Callable[[Callable[[], None]], None]:
    """Die on the way into the second call of a function, or on the way out of it."""

    def prepare(die: Callable[[], None]) -> None:
        import importlib

        module, _, attribute = owner.partition(":")
        holder = importlib.import_module(module)
        if attribute:
            holder = getattr(holder, attribute)
        original, calls = getattr(holder, name), [0]

        def wrapped(*arguments: Any, **settings: Any) -> Any:
            calls[0] += 1
            if calls[0] == DEADLY_ROUND and not after:
                if before is not None:
                    before(*arguments)
                die()
            result = original(*arguments, **settings)
            if calls[0] == DEADLY_ROUND:
                die()
            return result

        setattr(holder, name, wrapped)

    return prepare


def _half_a_line(files: Any, _record: Any) -> None:
    with files.paths[0].open("a") as file:
        file.write("2,0.12")


_CHECKPOINT, _LEDGER = "fedmerit.simulation.run", "fedmerit.ledger.store:Ledger"
MOMENTS: dict[str, Callable[[Callable[[], None]], None]] = {
    "training": _phase("training"),
    "reports": _phase("reports"),
    "scoring": _phase("scoring"),
    "aggregation": _phase("aggregation"),
    "evaluation": _phase("evaluation"),
    "before the ledger has the round": _around(_LEDGER, "append"),
    "inside the ledger's transaction": _around(
        "fedmerit.ledger.file.writing:Writer", "_number_clients", after=True
    ),
    "after the ledger has the round": _around(_LEDGER, "append", after=True),
    "half a line of results": _around(
        "fedmerit.simulation.results:ResultFiles", "append", before=_half_a_line
    ),
    "half a checkpoint": _around("fedmerit.server.state", "_digest"),
    "after the checkpoint": _around(_CHECKPOINT, "save_checkpoint", after=True),
}


if __name__ == "__main__":
    main(int(sys.argv[1]))
