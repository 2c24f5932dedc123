"""The live page in a real browser: it follows a run, compares two, and outlives its server."""

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from fedmerit.ledger import Ledger, check_statement
from fedmerit.ledger.proof.statement import read_json
from fedmerit.types import ClientRecord, RoundRecord
from tests.report.builders import HOSTILE, make_records
from tests.report.test_page import write_ledger

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
# What a browser says of any request that a server which was killed did not finish.
GONE = ("Failed to load resource: net::ERR_",)


class Writer:
    """Another process that records rounds."""

    def __init__(self, path, clients):
        self._command = [sys.executable, "-m", "tests.report.writing_child", path, str(clients)]
        self._start()

    def _start(self):
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": paths},
        )
        assert self._process.stdout.readline() == "ready\n"

    def write(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def killed(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def again(self):
        self.killed()
        self._start()


@pytest.fixture
def writer():
    made = []

    def start(path, clients=12):
        made.append(Writer(path, clients))
        return made[-1]

    yield start
    for one in made:
        one.killed()


def shows(page, rounds):
    expect(page.locator("#tiles dd").first).to_have_text(str(rounds))
    is_settled(page)


def holds(page, table, rows):
    expect(page.locator(f"#{table} tbody tr")).to_have_count(rows)
    is_settled(page)


def is_settled(page):
    """A page reads again when it begins to listen, and a link that is drawn anew loses a click."""
    expect(page.locator("#live")).to_have_text("live")


# The server says that something changed when a page begins to listen, and when something did. Each
# page is told at the same moment; one more answer of the server is time to read what changed.
HEAR = """async () => {
    const ear = new EventSource("/events");
    const told = () => new Promise((next) => ear.addEventListener("changed", next, { once: true }));
    await told();
    heard = told();
}"""
HEARD = "heard.then(() => fetch('/data/runs')).then((answer) => answer.ok)"


def run_page(server):
    return f"{server.url}run?id=run.ledger~1"


def test_a_run_that_is_being_written_is_followed(quiet_page, served, writer, tmp_path):
    path = tmp_path / "run.ledger"
    process = writer(str(path))
    process.write()
    server = served(path)
    page = quiet_page(run_page(server), within=server.url)
    shows(page, 1)
    page.get_by_role("button", name="None", exact=True).click()
    page.get_by_label("Find a client").fill("hospital-7")
    page.keyboard.press("Enter")
    page.get_by_label("Show").select_option("weight")
    page.locator("#rank-table thead button", has_text="Paid").click()
    for number in (2, 3):
        assert process.write() == number
        shows(page, number)
    process.again()  # the federation's server dies, and comes back
    assert process.write() == 4
    shows(page, 4)
    expect(page.locator("#live")).to_have_text("live")
    # What people chose stays: search, selection, measure, order of the table.
    assert page.get_by_label("Find a client").input_value() == "hospital-7"
    assert page.locator("#chosen button").all_inner_texts() == ["hospital-7"]
    assert page.get_by_label("Show").input_value() == "weight"
    assert page.locator("#rank-table th[aria-sort]").inner_text().startswith("Paid")
    page.goto(f"{run_page(server)}#client=hospital-7")
    holds(page, "statement-table", 4)
    process.write()
    holds(page, "statement-table", 5)


def test_a_click_is_not_lost_when_a_round_is_written_in_the_middle_of_it(
    quiet_page, served, writer, tmp_path
):
    """On the page of runs, where no chart moves what is under the pointer."""
    process = writer(str(tmp_path / "run.ledger"))
    process.write()
    server = served(tmp_path)
    page = quiet_page(server.url)
    holds(page, "runs-table", 1)
    page.get_by_role("link", name="run", exact=True).hover()
    page.mouse.down()
    page.evaluate(HEAR)
    process.write()
    page.evaluate(HEARD)
    page.mouse.up()
    shows(page, 2)


def test_a_page_is_not_drawn_again_because_another_run_wrote(quiet_page, served, writer, tmp_path):
    write_ledger(tmp_path / "run.ledger", make_records(rounds=2))
    process = writer(str(tmp_path / "other.ledger"))
    process.write()
    server = served(tmp_path)
    page = quiet_page(run_page(server), within=server.url)
    shows(page, 2)
    page.evaluate("() => { row = document.querySelector('#rank-table tbody tr'); }")
    page.evaluate(HEAR)
    process.write()
    page.evaluate(HEARD)
    is_settled(page)
    assert page.evaluate("row.isConnected")


def test_the_page_server_dies_and_comes_back(quiet_page, writer, tmp_path):
    path = tmp_path / "run.ledger"
    process = writer(str(path))
    process.write()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def serve():
        call = "from fedmerit.cli import main; main()"
        command = [sys.executable, "-c", call, "serve", str(path), "--port", str(port)]
        env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        started = subprocess.Popen(
            [*command, "--every", "0.1"], stdout=subprocess.PIPE, text=True, env=env
        )
        assert started.stdout.readline().startswith(f"open: http://127.0.0.1:{port}/")
        return started

    server = serve()
    try:
        home = f"http://127.0.0.1:{port}/"
        page = quiet_page(f"{home}run?id=run.ledger~1", within=home, allowed=GONE)
        shows(page, 1)
        server.kill()
        server.communicate()
        expect(page.locator("#live")).to_have_text("connection lost, trying again")
        process.write()
        server = serve()
        shows(page, 2)
        expect(page.locator("#live")).to_have_text("live")
    finally:
        server.kill()
        server.communicate()


def test_two_hundred_clients_and_a_hostile_name(quiet_page, served, writer, tmp_path):
    path = tmp_path / "run.ledger"
    process = writer(str(path), 200)
    for _ in range(3):
        process.write()
    server = served(path)
    page = quiet_page(run_page(server), within=server.url)
    shows(page, 3)
    holds(page, "rank-table", 201)  # one was only rejected
    page.get_by_label("Find a client").fill("<script>")
    holds(page, "rank-table", 1)
    # By its address: what is drawn anew whenever the file changes may lose a click.
    address = page.locator("#rank-table tbody th a").first.get_attribute("href")
    page.evaluate("to => { location.hash = to; }", address)
    expect(page.locator("#client-title")).to_have_text(HOSTILE)
    process.write()
    holds(page, "statement-table", 4)
    assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0
    with page.expect_download() as download:
        page.locator("#statement-file").click()
    found = check_statement(read_json(Path(download.value.path()).read_bytes()))
    assert (found.ok, found.client) == (True, HOSTILE)


def test_runs_are_listed_and_two_are_compared(quiet_page, served, tmp_path):
    for name, accuracy, weights in (("plain", 0.5, (0.5, 0.5)), ("merit", 0.8, (0.9, 0.1))):
        clients = tuple(
            ClientRecord(client, weight, weight, reward=round(100 * weight))
            for client, weight in zip((HOSTILE, "bea"), weights, strict=True)
        )
        record = RoundRecord(1, clients, metrics={"auc": accuracy, "loss": 1 - accuracy})
        write_ledger(tmp_path / f"{name}.ledger", [record])
    server = served(tmp_path)
    page = quiet_page(server.url)
    holds(page, "runs-table", 2)
    write_ledger(tmp_path / "third.ledger", make_records(rounds=1))
    holds(page, "runs-table", 3)
    page.get_by_label("Find a run").fill("thi")
    expect(page.locator("#runs-table tbody th")).to_have_text(["third"])
    page.get_by_label("Find a run").fill("")
    for name in ("plain", "merit"):
        page.get_by_label(f"select {name}").check()
    page.get_by_role("link", name="Compare the two").click()
    expect(page.locator("#tiles")).to_contain_text("0.500 → 0.800")
    expect(page.locator("#tiles")).to_contain_text("auc")
    holds(page, "compare-table", 2)
    row = page.locator("#compare-table tbody tr", has_text=HOSTILE)
    cells = row.locator("td").all_inner_texts()
    assert cells[:3] == ["1", "1", "="]
    assert cells[3:9] == ["50.0 %", "90.0 %", "+40.0 %", "50", "90", "+40"]
    row = page.locator("#compare-table tbody tr", has_text="bea")
    cells = row.locator("td").all_inner_texts()
    assert cells[:6] == ["2", "2", "=", "50.0 %", "10.0 %", "\u221240.0 %"]
    page.set_viewport_size({"width": 1400, "height": 900})
    box = page.locator("#compare-table").locator("..")
    assert box.evaluate("box => box.scrollWidth <= box.clientWidth")
    with Ledger.open(tmp_path / "merit.ledger") as ledger:  # the comparison is live as well
        ledger.resume_run(1)
        ledger.append(RoundRecord(2, clients, metrics={"auc": 0.9}))
    expect(page.locator("#tiles")).to_contain_text("0.900")


def test_a_phone_sees_all_of_it_in_the_dark(quiet_page, served, tmp_path):
    write_ledger(tmp_path / "one.ledger", make_records())
    write_ledger(tmp_path / "two.ledger", make_records(clients=10))
    phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "color_scheme": "dark"}
    server = served(tmp_path)
    for path in (
        "", "run?id=one.ledger~1", "run?id=one.ledger~1#client=hospital-7",
        "compare?a=one.ledger~1&b=two.ledger~1",
    ):  # fmt: skip
        page = quiet_page(server.url + path, within=server.url, **phone)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_token_opens_the_page_and_leaves_the_address(quiet_page, served, tmp_path):
    write_ledger(tmp_path / "run.ledger", make_records(rounds=2))
    server = served(tmp_path, token="s3cret")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(server.url.partition("?")[0])
    page = quiet_page(server.url, within=server.url.partition("?")[0])
    assert "token" not in page.url
    page.get_by_role("link", name="run", exact=True).click()
    shows(page, 2)
