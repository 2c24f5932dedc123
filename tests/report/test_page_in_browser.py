"""The page in a real browser: drawn, usable, quiet, and unmoved by names that are attacks."""

import os
import shutil

import pytest

from fedmerit.report import RunView, write_report
from tests.report.builders import HOSTILE, HOSTILE_LABEL, make_records

pytestmark = pytest.mark.slow

CHROMIUM = os.environ.get("FEDMERIT_CHROMIUM") or shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("no chromium found: run `make browser`", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api")

CHARTS = (
    "metric", "course", "rank", "map", "group", "flag", "evidence", "pay", "epsilon",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(RunView(f"run of {HOSTILE}", make_records(), {HOSTILE: HOSTILE}), path)
    return path.as_uri()


@pytest.fixture
def open_page(browser, address):
    contexts, noise = [], []

    def opened(url=address, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: noise.append(message.text))
        page.on("pageerror", lambda error: noise.append(str(error)))
        page.on("dialog", lambda dialog: (noise.append(dialog.message), dialog.dismiss()))
        page.on(
            "request",
            lambda request: (
                noise.append(request.url)
                if not request.url.startswith((url, "data:", "blob:"))
                else None
            ),
        )
        page.goto(url)
        page.wait_for_selector("html[data-ready=true]", timeout=60_000)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert noise == []  # no console message, no error, no dialog, no request


def drawn(page, chart):
    return page.locator(f"#{chart}-chart svg.main-svg").first


def test_every_chart_is_drawn_and_described(open_page):
    page = open_page()
    for chart in CHARTS:
        assert drawn(page, chart).bounding_box()["height"] > 100
        assert len(page.locator(f"#{chart}-chart").get_attribute("aria-label")) > 20
    assert page.locator("#map-chart .heatmaplayer image").count() == 1
    assert page.locator("#rank-chart .errorbar").count() == 12
    assert page.locator("main section figcaption:visible").count() == len(CHARTS)
    tiles = page.locator("#tiles").inner_text()
    for number in ("6", "13", "3", "0.984"):
        assert number in tiles.split()


def test_names_are_text_everywhere(open_page):
    page = open_page()
    assert page.locator("h1").inner_text() == f"run of {HOSTILE}"
    assert page.locator("#rank-table tbody th", has_text=HOSTILE).count() == 1
    labels = page.locator("#rank-chart .xtick text").all_text_contents()
    assert HOSTILE in labels
    assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0
    assert page.evaluate("({}).name === undefined && Object.keys(Object.prototype).length") == 0


def test_search_and_selection(open_page):
    page = open_page()
    lines = page.locator("#course-chart .scatterlayer .trace")
    page.get_by_role("button", name="None", exact=True).click()
    page.wait_for_function("document.querySelector('#course-chart').data.length === 1")
    page.get_by_label("Find a client").fill("SCRIPT>AL")
    assert "1 of 13 clients found" in page.locator("#found").inner_text()
    assert page.locator("#rank-table tbody tr").count() == 1
    page.keyboard.press("Enter")  # selects the first that was found
    page.wait_for_function("document.querySelector('#course-chart').data.length === 2")
    assert lines.count() == 2
    assert page.locator("#chosen button").all_inner_texts() == [HOSTILE]
    page.keyboard.press("Escape")
    assert page.locator("#rank-table tbody tr").count() == 13
    page.locator("#rank-table tbody input").nth(4).check()
    page.wait_for_function("document.querySelector('#course-chart').data.length === 3")
    page.get_by_role("button", name=f"remove {HOSTILE}").click()
    page.wait_for_function("document.querySelector('#course-chart').data.length === 2")
    page.get_by_label("Show").select_option("paid")
    page.wait_for_function(
        "document.querySelector('#course-chart').layout.yaxis.title.text === 'paid so far'"
    )
    page.reload()  # what was chosen survives a refresh
    page.wait_for_selector("html[data-ready=true]")
    assert page.locator("#chosen button").count() == 1
    assert page.get_by_label("Show").input_value() == "paid"


def test_hovering_tells_the_client_and_clicking_selects_it(open_page):
    page = open_page(viewport={"width": 1200, "height": 900})
    page.get_by_role("button", name="None", exact=True).click()
    page.wait_for_function("document.querySelector('#course-chart').data.length === 1")
    point = page.locator("#rank-chart .point").first
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#rank-chart .hovertext")
    assert "rank 1" in page.locator("#rank-chart .hovertext").text_content()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("document.querySelector('#course-chart').data.length === 2")


def test_a_label_stands_beside_the_id_and_is_found(open_page):
    page = open_page(viewport={"width": 1200, "height": 900})
    cell = page.locator("#rank-table tbody th", has_text="hospital-0")
    assert cell.inner_text() == f"hospital-0 {HOSTILE_LABEL}"
    page.get_by_role("button", name="None", exact=True).click()
    page.wait_for_function("document.querySelector('#course-chart').data.length === 1")
    page.get_by_label("Find a client").fill("ONERROR=ALERT(4")
    assert "1 of 13 clients found" in page.locator("#found").inner_text()
    assert page.locator("#rank-table tbody tr").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('#course-chart').data.length === 2")
    assert page.locator("#chosen button").all_inner_texts() == [f"hospital-0 · {HOSTILE_LABEL}"]
    text = page.evaluate("document.querySelector('#course-chart').data[1].text[0]")
    assert text.startswith("<b>hospital-0 · &lt;img src=x onerror")
    assert page.evaluate("document.querySelectorAll('main img').length") == 0


def test_why_is_told_where_there_is_no_weight(open_page):
    page = open_page()
    rider = page.locator("#rank-table tbody tr", has_text="rider")
    assert "explained by public information \u00d7 6" in rider.inner_text()
    texts = page.evaluate("document.querySelector('#flag-chart').data[0].text.flat()")
    assert any(text.endswith("<br>explained by public information (91%)") for text in texts)
    keys = page.evaluate("document.querySelector('#flag-chart').data.slice(1).map((t) => t.name)")
    assert keys == ["agrees only with a clique", "explained by public informa…"]


def test_tables_sort_by_keyboard(open_page):
    page = open_page()
    page.locator("#rank-table thead button", has_text="Flagged").focus()
    page.keyboard.press("Enter")
    assert page.locator("#rank-table th[aria-sort=descending]").inner_text().startswith("Flagged")
    flags = page.locator("#rank-table tbody tr td:nth-child(9)").all_inner_texts()
    assert flags[:3] == ["6 of 6"] * 3


def test_the_agreement_of_another_round(open_page):
    page = open_page()
    assert page.locator("#map-label").inner_text() == "6"
    page.get_by_role("slider", name="Round").focus()
    page.keyboard.press("Home")
    assert page.locator("#map-label").inner_text() == "1"


def test_dark_follows_the_system_and_the_button(open_page):
    def ground(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    dark, light = open_page(color_scheme="dark"), open_page(color_scheme="light")
    assert ground(dark) != ground(light)
    ink = "document.querySelector('#rank-chart').layout.font.color"
    assert dark.evaluate(ink) != light.evaluate(ink)
    light.get_by_role("button", name="Switch to dark colours").click()
    assert ground(light) == ground(dark)
    light.wait_for_function(f"{ink} === '{dark.evaluate(ink)}'")
    light.evaluate("dispatchEvent(new Event('beforeprint'))")  # paper is light
    assert light.evaluate("document.documentElement.dataset.theme") == "light"


def test_a_narrow_screen_never_scrolls_sideways(open_page):
    page = open_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for chart in CHARTS:
        box = drawn(page, chart).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


def test_a_run_with_little_to_tell(open_page, tmp_path):
    """No payments, no certificate, no agreement, no metrics, one round."""
    from fedmerit.types import ClientRecord, RoundRecord

    path = tmp_path / "little.html"
    record = RoundRecord(1, (ClientRecord("a", 0.1, 0.5), ClientRecord("b", float("nan"), 0.5)))
    write_report(RunView("little", [record]), path)
    page = open_page(path.as_uri())
    for text in ("Nobody was flagged", "No payments were recorded", "no record of who agreed"):
        assert page.get_by_text(text).is_visible()
    write_report(RunView("empty", []), path)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=true]")
    assert "no rounds yet" in page.locator("#subtitle").inner_text()
