"""A local web page that follows runs as they are written: `fedmerit serve`.

It only reads. The standard library's server is enough for that: eight addresses, answers to GET,
and a handful of people who look (docs/decisions/0026). Who may look: on a loopback address whoever
is on this machine, through a browser that was not led here by another site (the Host header must
name this machine); elsewhere whoever has the token.
"""

import hmac
import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from errno import EADDRINUSE
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from socket import AF_INET6
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from fedmerit.errors import DataError, FedMeritError, SettingError
from fedmerit.ledger import StatementCheck, check_statement
from fedmerit.ledger.proof.statement import to_json
from fedmerit.report.data import page_data
from fedmerit.report.library import Library, check_served
from fedmerit.report.page import embedded, render
from fedmerit.report.statement import statement_page

HEARTBEAT_SECONDS = 15.0
MOST_LISTENERS = 64
_SOCKET_SECONDS = 60.0
_COOKIE = "fedmerit"
_HTML, _JSON, _TEXT = "text/html", "application/json", "text/plain"


@dataclass(frozen=True)
class Answer:
    """What a request is answered with."""

    status: int
    kind: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


class Watcher:
    """Looks at the library again and again, and wakes those who wait for a change."""

    def __init__(self, library: Library, every: float) -> None:
        self._library, self._every = library, every
        self._changed, self._stopped = threading.Condition(), threading.Event()
        self._seen, self._number = self._look(), 0
        self._thread = threading.Thread(target=self._run, name="fedmerit-watch", daemon=True)
        self._thread.start()

    @property
    def number(self) -> int:
        """How many changes there were."""
        return self._number

    @property
    def stopped(self) -> bool:
        """Whether nobody looks any more."""
        return self._stopped.is_set()

    def wait(self, known: int, seconds: float) -> int:
        """Wait until there are more changes than `known`, at most so long; return how many."""
        with self._changed:
            self._changed.wait_for(lambda: self._number != known or self.stopped, seconds)
            return self._number

    def stop(self) -> None:
        """Stop looking and wake everybody."""
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()

    def _look(self) -> object:
        try:
            return [(run.id, run.version) for run in self._library.runs()]
        except OSError as error:  # a folder that is being moved: the next look may find it again
            return str(error)

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            seen = self._look()
            if seen != self._seen:
                with self._changed:
                    self._seen, self._number = seen, self._number + 1
                    self._changed.notify_all()


class Site:
    """The pages and their data."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._pages: dict[str, Callable[[dict[str, str]], Answer]] = {
            "/": self._home,
            "/run": self._run,
            "/compare": self._compare,
            "/data/runs": lambda _: _json(self._runs()),
            "/statement": self._statement,
            "/statement/page": lambda query: _page(statement_page(self._checked(query)[1])),
            "/data/run": lambda query: _json(self._data(query.get("id", ""))),
        }

    def answer(self, path: str, query: dict[str, str]) -> Answer:
        """Answer a request."""
        page = self._pages.get(path)
        if page is None:
            return _text(404, f"there is no page {path}")
        try:
            return page(query)
        except DataError as error:
            return _text(404, str(error))
        except FedMeritError as error:
            return _text(409, str(error))

    def _runs(self) -> dict[str, object]:
        runs = sorted(self._library.runs(), key=lambda run: run.started, reverse=True)
        return {"where": str(self._library.path), "runs": [asdict(run) for run in runs]}

    def _data(self, name: str) -> dict[str, object]:
        return page_data(self._library.view(name), live=_address(name))

    def _home(self, _query: dict[str, str]) -> Answer:
        return _page(render("runs", "Runs", self._runs(), served=True))

    def _run(self, query: dict[str, str]) -> Answer:
        data = self._data(query.get("id", ""))
        return _page(render("run", str(data["title"]), data, served=True))

    def _checked(self, query: dict[str, str]) -> tuple[dict[str, Any], StatementCheck]:
        made = self._library.statement(query.get("id", ""), query.get("client", ""))
        return made, check_statement(made)

    def _statement(self, query: dict[str, str]) -> Answer:
        made, found = self._checked(query)
        if not found.ok:
            return _text(409, str(found.problem))
        attached = {"Content-Disposition": 'attachment; filename="statement.json"'}
        return Answer(200, _JSON, to_json(made).encode(), attached)

    def _compare(self, query: dict[str, str]) -> Answer:
        names = [query.get(side, "") for side in "ab"]
        for name in names:
            self._library.view(name)
        data = dict(zip("ab", map(_address, names), strict=True))
        return _page(render("compare", "Two runs", data, served=True))


def _address(name: str) -> str:
    return f"/data/run?id={quote(name, safe='')}"


def _page(content: str) -> Answer:
    return Answer(200, _HTML, content.encode())


def _json(data: object) -> Answer:
    return Answer(200, _JSON, embedded(data).encode())


def _text(status: int, content: str, **headers: str) -> Answer:
    return Answer(status, _TEXT, (content + "\n").encode(errors="replace"), headers)


class LiveServer(ThreadingHTTPServer):
    """Serves the runs at `path`.

    Parameters
    ----------
    path : Path
        A ledger, the folder of a run, or a folder of these.
    host : str
        Address to listen on.
    port : int
        0: any that is free.
    token : str, optional
        Whoever looks must have it; needed unless the address is a loopback one.
    every : float
        Seconds between looks.
    """

    daemon_threads = True

    def __init__(
        self,
        path: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        every: float = 1.0,
    ) -> None:
        check_served(path)
        if token is None and not is_loopback(host):
            raise SettingError(f"an address that others can reach must have a token, got {host}")
        if ":" in host:
            self.address_family = AF_INET6
        self.token, self.host = token, host
        self.listeners = threading.BoundedSemaphore(MOST_LISTENERS)
        self.library = Library(path)
        self.site, self.watcher = Site(self.library), Watcher(self.library, every)
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            self.watcher.stop()
            raise SettingError(
                f"cannot listen on {host}:{port}: {error.strerror or error}"
                + ("; --port 0 takes any that is free" if error.errno == EADDRINUSE else "")
            ) from error

    @property
    def url(self) -> str:
        """Where the page is, with the token if there is one."""
        return self.url_at(self.host)

    def url_at(self, name: str) -> str:
        """Return where the page is by another name of this machine."""
        host = f"[{name}]" if ":" in name else name
        address = f"http://{host}:{self.server_address[1]}/"
        return address if self.token is None else f"{address}?{urlencode({'token': self.token})}"

    def server_close(self) -> None:
        """Stop listening and looking."""
        self.watcher.stop()
        super().server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a browser that goes away in the middle is no error."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_everywhere(host: str) -> bool:
    """Return whether `host` stands for all addresses of this machine."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "fedmerit", ""
    timeout = _SOCKET_SECONDS

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        refused = self._refused(parts.path, query)
        if refused is not None:
            self._send(refused)
        elif parts.path == "/events":
            self._events()
        else:
            self._send(self.server.site.answer(parts.path, query))

    do_HEAD = do_GET  # noqa: N815 - the name is the standard library's

    def _refused(self, path: str, query: dict[str, str]) -> Answer | None:
        token = self.server.token
        if token is None:
            # A site elsewhere may have its name point here; the Host header gives it away.
            name = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
            return None if is_loopback(name) else _text(421, "this page is for this machine only")
        given = query.pop("token", None)
        if given is not None and _same(given, token):
            where = path + (f"?{urlencode(query)}" if query else "")
            cookie = f"{_COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"
            return Answer(303, _TEXT, b"", {"Location": where, "Set-Cookie": cookie})
        if _same(self._cookie(), token):
            return None
        return _text(401, "a token is needed: open the address that fedmerit serve printed")

    def _cookie(self) -> str:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(_COOKIE)
        except CookieError:
            return ""
        return "" if found is None else found.value

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        headers = {
            "Content-Type": f"{answer.kind}; charset=utf-8",
            "Content-Length": str(len(answer.body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        for name, value in (headers | answer.headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _events(self) -> None:
        """Send an event at once and at every change, and a sign of life in between."""
        if not self.server.listeners.acquire(blocking=False):
            self._send(_text(503, f"at most {MOST_LISTENERS} pages can listen at once"))
            return
        self.close_connection = True
        watcher = self.server.watcher
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(b"retry: 1000\n\n")
            known = -1
            while not watcher.stopped:
                number = watcher.wait(known, HEARTBEAT_SECONDS)
                line = f"event: changed\ndata: {json.dumps(number)}\n\n"
                self.wfile.write(line.encode() if number != known else b": here\n\n")
                self.wfile.flush()
                known = number
        except OSError:
            pass  # the page was closed
        finally:
            self.server.listeners.release()

    def log_message(self, *_: object) -> None:
        """Say nothing: requests are no news."""


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), token.encode())
