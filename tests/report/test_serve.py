"""The live server: it shows what is there, only reads, and lets in whom it should."""

import http.client
import json
import urllib.parse

import pytest

from fedmerit.errors import DataError, LedgerError, SettingError
from fedmerit.ledger import Ledger, check_statement
from fedmerit.ledger.proof.statement import read_json
from fedmerit.report.library import Library
from fedmerit.report.serve import LiveServer, is_everywhere, is_loopback
from tests.report.builders import HOSTILE, make_records, serving
from tests.report.test_page import write_ledger


def ask(server, path, *, method="GET", **headers):
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


@pytest.fixture
def folder(tmp_path):
    write_ledger(tmp_path / "one.ledger", make_records(rounds=3))
    (tmp_path / "deep").mkdir()
    write_ledger(tmp_path / "deep" / "two.ledger", make_records(rounds=2), runs=2)
    return tmp_path


def test_every_run_below_a_folder_is_found_and_read(folder):
    (folder / "broken.ledger").write_bytes(b"no ledger at all, but some bytes" * 10)
    (folder / "new.ledger").touch()  # a run that starts just now
    found = {run.id: run for run in Library(folder).runs()}
    assert set(found) == {
        "one.ledger~1",
        "deep/two.ledger~1",
        "deep/two.ledger~2",
        "broken.ledger~0",
    }
    assert [found[name].rounds for name in ("one.ledger~1", "deep/two.ledger~2")] == [3, 2]
    assert "cannot open" in found["broken.ledger~0"].problem
    assert Library(folder).view("deep/two.ledger~2").title == "deep/two, run 2"


def test_a_run_that_grows_is_read_from_where_it_was(tmp_path):
    records, path = make_records(rounds=4), tmp_path / "run.ledger"
    write_ledger(path, records[:1])
    library = Library(path)
    versions = [library.runs()[0].version]
    assert len(library.view("run.ledger~1").records) == 1
    for number in (2, 3):
        with Ledger.open(path) as ledger:
            ledger.resume_run(1)
            ledger.append(records[number - 1])
        view = library.view("run.ledger~1")
        assert [record.round for record in view.records] == list(range(1, number + 1))
        versions.append(library.runs()[0].version)
    assert len(set(versions)) == 3
    path.unlink()  # another run takes the file's place
    write_ledger(path, make_records(clients=9, rounds=2))
    view = library.view("run.ledger~1")
    assert [len(record.clients) for record in view.records] == [9, 9]


def test_a_ledger_that_was_changed_is_told_and_the_others_are_shown(folder):
    path = folder / "one.ledger"
    path.write_bytes(path.read_bytes().replace(b"explained92%", b"explained91%"))
    library = Library(folder)
    assert "not what was recorded" in library.view("one.ledger~1").chain.problem
    assert library.view("deep/two.ledger~1").chain.problem is None


def test_pages_and_data(folder):
    with serving(folder) as server:
        for path in ("/", "/run?id=one.ledger~1", "/compare?a=one.ledger~1&b=deep/two.ledger~2"):
            answer, body = ask(server, path)
            assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")
            assert b"connect-src 'self'" in body
            assert HOSTILE.encode() not in body
        answer, body = ask(server, "/data/run?id=one.ledger~1")
        assert json.loads(body)["rounds"] == [1, 2, 3]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        _, body = ask(server, "/data/runs")
        assert len(json.loads(body)["runs"]) == 3
        answer, body = ask(server, "/", method="HEAD")
        assert (answer.status, body) == (200, b"")


def test_a_client_takes_its_statement_with_it(folder):
    client = urllib.parse.quote(HOSTILE)
    with serving(folder) as server:
        answer, body = ask(server, f"/statement?id=one.ledger~1&client={client}")
        assert answer.headers["Content-Disposition"] == 'attachment; filename="statement.json"'
        found = check_statement(read_json(body))
        assert (found.ok, found.client, len(found.rounds)) == (True, HOSTILE, 3)
        answer, body = ask(server, f"/statement/page?id=one.ledger~1&client={client}")
        assert answer.status == 200
        assert HOSTILE.encode() not in body
        assert ask(server, "/statement?id=one.ledger~1&client=nobody")[0].status in (404, 409)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 404),
        ("/run", 404),
        ("/run?id=../../etc/passwd~1", 404),
        ("/run?id=one.ledger~7", 404),
        ("/data/run?id=%00%ff", 404),
        ("/compare?a=one.ledger~1&b=", 404),
    ],
)
def test_what_is_not_there_is_said(folder, path, status):
    with serving(folder) as server:
        answer, body = ask(server, path)
        assert answer.status == status
        assert b"Traceback" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_it_only_reads(folder, method):
    before = (folder / "one.ledger").read_bytes()
    with serving(folder) as server:
        assert ask(server, "/", method=method)[0].status == 501
    assert (folder / "one.ledger").read_bytes() == before


def test_another_site_cannot_reach_the_loopback_page(folder):
    with serving(folder) as server:
        port = server.server_address[1]
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", "[::1]:1"):
            assert ask(server, "/data/runs", Host=host)[0].status == 200
        for host in ("evil.example", f"127.0.0.1.evil.example:{port}", ""):
            assert ask(server, "/data/runs", Host=host)[0].status == 421


def test_elsewhere_a_token_is_needed(folder):
    with pytest.raises(SettingError, match=r"must have a token, got 0\.0\.0\.0"):
        LiveServer(folder, host="0.0.0.0")
    with serving(folder, token="s3cret") as server:
        assert server.url.endswith("/?token=s3cret")
        for path in ("/", "/data/runs", "/events", "/?token=wrong", "/nothing"):
            assert ask(server, path)[0].status == 401
        assert ask(server, "/", Cookie="fedmerit=wrong")[0].status == 401
        assert ask(server, "/", Cookie="\x7f;;=")[0].status == 401
        answer, _ = ask(server, "/run?token=s3cret&id=one.ledger~1")
        assert (answer.status, answer.headers["Location"]) == (303, "/run?id=one.ledger~1")
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert ask(server, "/run?id=one.ledger~1", Cookie=cookie.split(";")[0])[0].status == 200


def test_every_change_is_told(tmp_path):
    records, path = make_records(rounds=3), tmp_path / "run.ledger"
    write_ledger(path, records[:1])
    with serving(path) as server:
        connection = http.client.HTTPConnection(*server.server_address[:2], timeout=20)
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == "text/event-stream"

        def event():
            while not (line := answer.readline()).startswith(b"data:"):
                assert line, "the stream must go on"
            return int(line[5:])

        assert event() == 0  # at once, so that nothing between page and stream is lost
        with Ledger.open(path) as ledger:
            ledger.resume_run(1)
            ledger.append(records[1])
        assert event() >= 1
        connection.close()


def test_what_cannot_be_served_is_refused_at_the_start(tmp_path):
    with pytest.raises(DataError, match="got no such file"):
        LiveServer(tmp_path / "none.ledger")
    (tmp_path / "text.ledger").write_text("hello, this is text" * 100)
    with pytest.raises(LedgerError):
        LiveServer(tmp_path / "text.ledger")
    write_ledger(tmp_path / "run.ledger", make_records(rounds=1))
    with (
        serving(tmp_path / "run.ledger") as server,
        pytest.raises(
            SettingError,
            match=r"cannot listen on 127\.0\.0\.1:\d+: .*; --port 0 takes any that is free$",
        ),
    ):
        LiveServer(tmp_path / "run.ledger", port=server.server_address[1])


def test_an_address_that_is_not_of_this_machine_is_no_matter_of_ports(tmp_path):
    with pytest.raises(SettingError, match=r"cannot listen on 192\.0\.2\.1") as refused:
        LiveServer(tmp_path, host="192.0.2.1", token="s3cret")
    assert "--port" not in str(refused.value)


def test_the_page_has_an_address_by_every_name_of_the_machine(folder):
    with serving(folder, token="s3cret") as server:
        port = server.server_address[1]
        assert server.url_at("node-7") == f"http://node-7:{port}/?token=s3cret"
        assert server.url_at("::1") == f"http://[::1]:{port}/?token=s3cret"


@pytest.mark.parametrize(
    ("host", "everywhere"),
    [("0.0.0.0", True), ("::", True), ("127.0.0.1", False), ("node-7", False)],
)
def test_what_stands_for_all_addresses(host, everywhere):
    assert is_everywhere(host) is everywhere


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "example.org", "")],
)
def test_what_is_a_loopback_address(host, loopback):
    assert is_loopback(host) is loopback
