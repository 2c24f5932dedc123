"""A page in a real browser: whether it opens, in what time, and what goes wrong in it."""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from checks.speed.timing import Part, machine
from fedmerit.flags import Flag, Kind
from fedmerit.report import RunView, write_report
from fedmerit.types import ClientRecord, RoundRecord

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_PATIENCE = 120_000  # milliseconds
_REPEATS = 5
_SMALL, _LARGE = (20, 20), (1000, 200)  # clients and rounds
_MISSING = "not opened, for want of a browser (`make browser`)"


@dataclass(frozen=True)
class Opening:
    """Seconds until a page shows what is in view, and until all of it is drawn for paper."""

    in_view: float
    whole: float
    charts: int
    errors: int


@contextmanager
def chromium() -> Iterator["Browser | None"]:
    """Yield a browser, or nothing where there is none."""
    path = os.environ.get("FEDMERIT_CHROMIUM") or shutil.which("chromium")
    if path is None:
        yield None
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def opening(browser: "Browser", page: Path) -> Opening:
    """Open a report as somebody does who has not seen it before."""
    complaints: list[str] = []
    shown = browser.new_page()
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    begin = time.perf_counter()
    shown.goto(page.as_uri())
    shown.wait_for_selector("html[data-ready=true]", timeout=_PATIENCE)
    in_view = time.perf_counter() - begin
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    whole = time.perf_counter() - begin
    charts = shown.locator("[id$=-chart] > svg").count()
    shown.close()
    return Opening(in_view, whole, charts, len(complaints))


def opened(page: Path) -> str:
    """Open a report and say what came out."""
    with chromium() as browser:
        if browser is None:
            return _MISSING
        found = opening(browser, page)
    return (
        f"opened in Chromium in {found.in_view:.1f} s, all {found.charts} charts drawn after "
        f"{found.whole:.1f} s, {found.errors} errors"
    )


def measure() -> Part:
    """Return the part of the report on its own page."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        pages = {size: Path(folder) / f"{size[0]}.html" for size in (_SMALL, _LARGE)}
        sizes = {size: write_report(_run(*size), page) for size, page in pages.items()}
        head = ["## The report page", ""]
        if browser is None:
            return Part([*head, f"The page was {_MISSING}."])
        seen: dict[tuple[int, int], list[Opening]] = {size: [] for size in pages}
        for _ in range(_REPEATS):
            for size, page in pages.items():
                seen[size].append(opening(browser, page))
    lines = [
        *head,
        f"In Chromium, 1,280 x 720; medians of {_REPEATS}, in turns. On {machine()}.",
        "",
        "| clients x rounds | MB | s until what is in view is drawn | s until all is drawn |",
        "|---|---:|---:|---:|",
    ]
    medians = {
        size: statistics.median(opened.in_view for opened in found) for size, found in seen.items()
    }
    for (clients, rounds), found in seen.items():
        whole = statistics.median(opened.whole for opened in found)
        megabytes = sizes[clients, rounds] / 1e6
        lines.append(
            f"| {clients:,} x {rounds:,} | {megabytes:.2f} | {medians[clients, rounds]:.2f} "
            f"| {whole:.2f} |"
        )
    ratio = medians[_LARGE] / medians[_SMALL]
    return Part(lines, {"report page, 1,000 x 200 / 20 x 20": ratio})


def _run(clients: int, rounds: int) -> RunView:
    """Return a run in which one client of twenty is flagged in half of its rounds."""
    rng = np.random.default_rng(0)
    records = []
    for number in range(1, rounds + 1):
        scores, chances = rng.normal(0.1, 0.02, size=clients), rng.random(clients) ** 8
        members = tuple(
            ClientRecord(
                f"client {index}",
                float(scores[index]),
                1 / clients,
                p_value=float(chances[index]),
                epsilon=0.001,
                flag=Flag(Kind.INDEPENDENT) if not index % 20 and scores[index] > 0.1 else None,
                reward=int(1000 * abs(scores[index])),
            )
            for index in range(clients)
        )
        metrics = {"accuracy": 1 - 0.5**number, "loss": 0.5**number}
        records.append(RoundRecord(number, members, metrics=metrics))
    return RunView("run", records)
