"""A real browser, and pages that must stay quiet in it."""

import os
import shutil
from contextlib import ExitStack

import pytest

from tests.report.builders import serving

CHROMIUM = os.environ.get("FEDMERIT_CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium found: run `make browser`")
    playwright = pytest.importorskip("playwright.sync_api")
    playwright.expect.set_options(timeout=30_000)  # a busy machine, not a slow page
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def served():
    """Serve runs until the test is over."""
    with ExitStack() as servers:
        yield lambda path, **options: servers.enter_context(serving(path, **options))


@pytest.fixture
def quiet_page(browser, served):  # noqa: ARG001 - so that it is torn down first
    """Open pages; afterwards there was no message, error, dialog, or request to elsewhere.

    It asks for `served` because a live page complains of a server that is gone: pages close first.
    """
    contexts, noise = [], []

    def opened(url, *, within=None, allowed=(), **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()

        def heard(text):
            if not any(words in text for words in allowed):
                noise.append(text)

        page.on("console", lambda message: heard(message.text))
        page.on("pageerror", lambda error: heard(str(error)))
        page.on("dialog", lambda dialog: (heard(dialog.message), dialog.dismiss()))
        home = (within or url, "data:", "blob:")
        page.on("request", lambda r: None if r.url.startswith(home) else heard(r.url))
        page.goto(url)
        page.wait_for_selector("html[data-ready=true]", timeout=60_000)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert noise == []
