"""A Flower federation on this machine: SuperLink, SuperNodes and a run, each a process on loopback.

Everything runs under one scratch folder and is stopped when the `with` block ends, however it ends.
For a look and for tests: connections are not encrypted and nodes not authenticated, unless TLS
files are given.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import fedmerit
from fedmerit.errors import FedMeritError

LOOPBACK = "127.0.0.1"
CONNECTION = "lab"
_POLL_SECONDS = 0.2
_GRACE_SECONDS = 5.0
_START_SECONDS = 60.0
# Stay on this machine, ask nothing, install nothing; one thread each, or they stand in each
# other's way.
_QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}


class DeploymentError(FedMeritError):
    """A process of the federation did not do what it should."""


@dataclass(frozen=True)
class Security:
    """Files for TLS, and for nodes that prove who they are."""

    ca_certificate: Path
    certificate: Path
    key: Path


def example_app() -> Path:
    """Return the folder of the example app: beside this package, or in the source tree."""
    package = Path(fedmerit.__file__).parent
    for folder in (package / "flower" / "example", package.parents[1] / "examples/flower-mnist"):
        if (folder / "pyproject.toml").is_file():
            return folder
    raise DeploymentError("the example app must come with fedmerit, got neither of its folders")


class Deployment:
    """A SuperLink and the SuperNodes that are started on it.

    Parameters
    ----------
    folder : Path
        Scratch folder: Flower's home, logs.
    security : Security, optional
        Serve TLS, and let only nodes with a registered key in.
    simulation : bool
        Simulate the nodes with Ray; then none are started here.
    """

    def __init__(
        self, folder: Path, security: Security | None = None, *, simulation: bool = False
    ) -> None:
        self.folder = folder.absolute()
        self.security, self.simulation = security, simulation
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.home = self.folder / "flower"
        self.port = free_ports(1)[0]
        self._files = ExitStack()

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True)
        address = f'address = "{LOOPBACK}:{self.port}"'
        trust = "insecure = true"
        flags = ["--insecure"]
        if self.security is not None:
            trust = f'root-certificates = "{self.security.ca_certificate}"'
            flags = [
                *("--ssl-ca-certfile", str(self.security.ca_certificate)),
                *("--ssl-certfile", str(self.security.certificate)),
                *("--ssl-keyfile", str(self.security.key), "--enable-supernode-auth"),
            ]
        config = f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
        (self.home / "config.toml").write_text(f"{config}{address}\n{trust}\n", encoding="utf-8")
        try:
            listening = ["--host", LOOPBACK, "--port", str(self.port)]
            listening.append("--disable-runtime-dependency-installation")
            if self.simulation:
                listening.append("--simulation")
            self.start("superlink", ["flower-superlink", *flags, *listening])
            self._wait_for_port()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def environment(self) -> dict[str, str]:
        """What every process gets; its home is also the mark by which it is found again."""
        # They run in another folder and must find the same commands and the same fedmerit.
        first = {
            "PATH": Path(sys.executable).parent,
            "PYTHONPATH": Path(fedmerit.__file__).parents[1],
        }
        found = {
            name: os.pathsep.join(filter(None, (str(folder), os.environ.get(name))))
            for name, folder in first.items()
        }
        return {**os.environ, **_QUIET, **found, "FLWR_HOME": str(self.home)}

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a process; what it prints goes to ``<name>.log``."""
        output = self._files.enter_context(self.log_file(name).open("ab"))
        self.processes[name] = subprocess.Popen(
            command,
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for us, who then stop them in order
        )

    def start_node(self, name: str, config: str, key: Path | None = None) -> None:
        """Start a SuperNode with its node configuration, and with its private key if it has one."""
        trust = ["--insecure"]
        if self.security is not None:
            trust = ["--root-certificates", str(self.security.ca_certificate)]
        if key is not None:
            trust += ["--auth-supernode-private-key", str(key)]
        where = ["--superlink", f"{LOOPBACK}:{self.port}", "--host", LOOPBACK]
        own = ["--port", str(free_ports(1)[0]), "--node-config", config]
        self.start(name, ["flower-supernode", *trust, *where, *own])

    def submit(
        self,
        app: Path,
        settings: Mapping[str, Any],
        federation: Mapping[str, Any] | None = None,
    ) -> int:
        """Start a run of `app` and return its id; `federation` is for simulations."""
        command = ["run", str(app), CONNECTION, "--run-config", _toml(settings)]
        if federation is not None:
            command += ["--federation-config", _toml(federation)]
        return int(self.flwr(*command)["run-id"])

    def status(self, run: int) -> str:
        """Return how far a run is, as ``running`` or ``finished:completed``."""
        output = self.flwr("ls", CONNECTION, "--run-id", str(run))
        return str(output["runs"][0]["status"])

    def nodes(self) -> list[dict[str, Any]]:
        """Return what the SuperLink knows of its nodes."""
        return list(self.flwr("supernode", "list", CONNECTION)["nodes"])

    def flwr(self, *command: str) -> dict[str, Any]:
        """Call Flower's command line and return its answer."""
        done = subprocess.run(
            ["flwr", *command, "--format", "json"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_START_SECONDS,
        )
        found = re.search(r"\{.*\}", done.stdout, re.S)
        answer = json.loads(found.group()) if found else {}
        if done.returncode or not answer.get("success", True):
            said = answer.get("error-message") or done.stderr or done.stdout
            raise DeploymentError(f"flwr {command[0]} must succeed, got {said.strip()[-500:]}")
        return dict(answer)

    def log_file(self, name: str) -> Path:
        """Return where a process prints to."""
        return self.folder / f"{name}.log"

    def kill(self, name: str) -> None:
        """Kill a process at once, as if the power went."""
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self) -> None:
        """Stop every process that was started here, and those that these started."""
        with _uninterrupted():
            self._stop()

    def _stop(self) -> None:
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + _GRACE_SECONDS
        while self._left() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        while left := self._left():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
        self._files.close()

    def _left(self) -> list[int]:
        """Return the processes of this federation that still run.

        Flower's processes start others in sessions of their own, which outlive a killed parent;
        they all carry our home in their environment.
        """
        for process in self.processes.values():
            process.poll()  # reap
        alive = {p.pid for p in self.processes.values() if p.returncode is None}
        mark = f"FLWR_HOME={self.home}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    alive.add(int(entry.name))
        return sorted(alive - {os.getpid()})

    def _wait_for_port(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self.processes["superlink"].poll() is not None:
                break
            with suppress(OSError), socket.create_connection((LOOPBACK, self.port), 1.0):
                return
            time.sleep(_POLL_SECONDS)
        said = self.log_file("superlink").read_text(errors="replace")[-500:]
        raise DeploymentError(f"the SuperLink must listen on port {self.port}, got: {said}")


def _toml(settings: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={json.dumps(value)}" for key, value in settings.items())


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let nobody's second Ctrl-C leave processes behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def free_ports(count: int) -> list[int]:
    """Return ports nobody listens on right now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind((LOOPBACK, 0))
        return [int(listener.getsockname()[1]) for listener in sockets]
