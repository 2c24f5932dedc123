"""The page in a real browser: drawn, usable, quiet, and unmoved by names that are attacks."""

from xml.etree import ElementTree

import numpy as np
import pytest

from fedmerit.report import RunView, write_report
from tests.report.builders import HOSTILE, HOSTILE_LABEL, make_records

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = pytest.mark.slow

CHARTS = (
    "metric", "course", "rank", "map", "group", "flag", "evidence", "pay", "epsilon",
)  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(RunView(f"run of {HOSTILE}", make_records(), {HOSTILE: HOSTILE}), path)
    return path.as_uri()


@pytest.fixture
def open_page(quiet_page, address):
    return lambda url=address, **options: quiet_page(url, **options)


def drawn(page, chart):
    page.locator(f"#{chart}-chart").scroll_into_view_if_needed()
    return page.locator(f"#{chart}-chart > svg")


def undrawn(page):
    return page.locator(".chart:empty:visible").evaluate_all("found => found.map(box => box.id)")


def shows_lines(page, count):
    """The selected clients' lines stand out by their width."""
    found = drawn(page, "course").locator("path.line[stroke-width='2.5']")
    expect(found).to_have_count(count)


def test_every_chart_is_drawn_and_described(open_page):
    page = open_page()
    for chart in CHARTS:
        assert drawn(page, chart).bounding_box()["height"] > 100
        assert len(drawn(page, chart).get_attribute("aria-label")) > 20
    assert page.locator("#map-chart image").count() == 1
    assert page.locator("#rank-chart .interval").count() == 9  # three have the same score always
    assert page.locator("main section figcaption:visible").count() == len(CHARTS)
    tiles = page.locator("#tiles").inner_text()
    for number in ("6", "13", "3", "0.984"):
        assert number in tiles.split()


def test_names_are_text_everywhere(open_page):
    page = open_page()
    assert page.locator("h1").inner_text() == f"run of {HOSTILE}"
    assert page.locator("#rank-table tbody th", has_text=HOSTILE).count() == 1
    drawn(page, "rank").wait_for()
    labels = page.locator("#rank-chart .y.tick").all_text_contents()
    assert HOSTILE in labels
    assert "\ufffdevil\ufffd" in labels  # no letter turns the others around
    assert "hospital-10 \u2691 6 of 6" in labels  # who is flagged has a name there, too
    assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0
    assert page.evaluate("({}).name === undefined && Object.keys(Object.prototype).length") == 0


def test_search_and_selection(open_page):
    page = open_page()
    page.get_by_role("button", name="None", exact=True).click()
    shows_lines(page, 0)
    page.get_by_label("Find a client").fill("SCRIPT>AL")
    assert "1 of 13 clients found" in page.locator("#found").inner_text()
    assert page.locator("#rank-table tbody tr").count() == 1
    page.keyboard.press("Enter")  # selects the first that was found
    shows_lines(page, 1)
    assert page.locator("#chosen button").all_inner_texts() == [HOSTILE]
    page.keyboard.press("Escape")
    assert page.locator("#rank-table tbody tr").count() == 13
    page.locator("#rank-table tbody input").nth(4).check()
    shows_lines(page, 2)
    page.get_by_role("button", name=f"remove {HOSTILE}").click()
    shows_lines(page, 1)
    page.get_by_label("Show").select_option("paid")
    assert page.locator("#course-chart .y.title").text_content() == "paid so far"
    page.reload()  # what was chosen survives a refresh
    page.wait_for_selector("html[data-ready=true]")
    assert page.locator("#chosen button").count() == 1
    assert page.get_by_label("Show").input_value() == "paid"


def test_hovering_tells_the_client_and_clicking_selects_it(open_page):
    page = open_page(viewport={"width": 1200, "height": 900})
    page.get_by_role("button", name="None", exact=True).click()
    point = drawn(page, "rank").locator(".mark").first
    point.hover()
    assert "rank 1" in page.locator("#rank-chart .tip").text_content()
    point.click()
    shows_lines(page, 1)


def test_a_label_stands_beside_the_id_and_is_found(open_page):
    page = open_page(viewport={"width": 1200, "height": 900})
    cell = page.locator("#rank-table tbody th", has_text="hospital-0")
    assert cell.inner_text() == f"hospital-0 {HOSTILE_LABEL}"
    page.get_by_role("button", name="None", exact=True).click()
    page.get_by_label("Find a client").fill("ONERROR=ALERT(4")
    assert "1 of 13 clients found" in page.locator("#found").inner_text()
    assert page.locator("#rank-table tbody tr").count() == 1
    page.keyboard.press("Enter")
    assert page.locator("#chosen button").all_inner_texts() == [f"hospital-0 · {HOSTILE_LABEL}"]
    legend = page.locator("#course-chart .legend li").all_inner_texts()
    assert legend == ["other clients", "hospital-0 · <img src=x onerror=alert(4)…"]
    assert page.evaluate("document.querySelectorAll('main img').length") == 0


def test_why_is_told_where_there_is_no_weight(open_page):
    page = open_page()
    rider = page.locator("#rank-table tbody tr", has_text="rider")
    expect(rider).to_contain_text("explained by public information \u00d7 6")
    chart = drawn(page, "flag")
    chart.wait_for()
    keys = page.locator("#flag-chart .legend li").all_inner_texts()
    assert keys == ["agrees only with a clique", "explained by public information"]
    box = chart.locator("image").bounding_box()  # two clients of the clique, then the rider
    page.mouse.move(box["x"] + 5, box["y"] + box["height"] - 3)
    told = page.locator("#flag-chart .tip").inner_text()
    assert "round 1" in told
    assert "explained by public information (91%)" in told or "clique" in told


def test_a_client_has_a_page_of_its_own(open_page):
    page = open_page()
    page.locator("#rank-table tbody th a", has_text=HOSTILE).click()
    page.locator("#run-view").wait_for(state="hidden")
    assert page.locator("#client-title").inner_text() == HOSTILE
    assert page.locator("#statement-table tbody tr").count() == 6
    assert drawn(page, "client").bounding_box()["height"] > 100
    page.reload()
    page.wait_for_selector("html[data-ready=true]")
    assert page.locator("#client-title").inner_text() == HOSTILE
    page.get_by_role("link", name="the whole run").click()
    page.locator("#client-view").wait_for(state="hidden")
    drawn(page, "rank").wait_for(state="visible")
    page.evaluate("location.hash = '#client=%E0%A4%A'")  # no address of anybody
    page.locator("#client-view").wait_for(state="visible")
    assert "No client of this name" in page.locator("#client-view").inner_text()


def test_nothing_is_cut_off_at_1400_pixels(open_page):
    page = open_page(viewport={"width": 1400, "height": 900})
    links = page.locator("#nav a")
    for place in range(links.count()):
        box = links.nth(place).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1400
    assert page.evaluate("document.getElementById('nav').scrollWidth") <= page.evaluate(
        "document.getElementById('nav').clientWidth"
    )
    for chart in ("course", "rank"):  # the legend stands above the chart, never under anything
        picture = drawn(page, chart).bounding_box()
        legend = page.locator(f"#{chart}-chart .legend").bounding_box()
        assert legend["y"] + legend["height"] <= picture["y"] + 1
    page.locator("#rank-table").scroll_into_view_if_needed()
    cells = page.locator("#rank-table tbody th a", has_text="hospital-11")
    assert cells.bounding_box()["height"] < 30  # an id is not wrapped


def test_a_chart_is_saved_as_a_picture(open_page, tmp_path):
    page = open_page()
    drawn(page, "rank").wait_for()
    with page.expect_download() as download:
        page.locator("#ranking figure").get_by_role("button", name="Save as SVG").click()
    path = tmp_path / "chart.svg"
    download.value.save_as(path)
    assert download.value.suggested_filename == "rank-chart.svg"
    assert "&lt;script&gt;alert(1)" in path.read_text()
    assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_tables_sort_by_keyboard(open_page):
    page = open_page()
    page.locator("#rank-table thead button", has_text="Flagged").focus()
    page.keyboard.press("Enter")
    assert page.locator("#rank-table th[aria-sort=descending]").inner_text().startswith("Flagged")
    flags = page.locator("#rank-table tbody tr td:nth-child(9)").all_inner_texts()
    assert flags[:3] == ["6 of 6"] * 3


def test_the_agreement_of_another_round(open_page):
    page = open_page()
    drawn(page, "map").wait_for()
    assert page.locator("#map-label").inner_text() == "6"
    page.get_by_role("slider", name="Round").focus()
    page.keyboard.press("Home")
    assert page.locator("#map-label").inner_text() == "1"


def test_dark_follows_the_system_and_the_button(open_page):
    def ground(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    dark, light = open_page(color_scheme="dark"), open_page(color_scheme="light")
    assert ground(dark) != ground(light)
    ink = "document.querySelector('#metric-chart .y.tick').getAttribute('fill')"
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
    for chart, text in (
        ("map", "no record of who agreed"),
        ("flag", "Nobody was flagged"),
        ("pay", "No payments were recorded"),
    ):
        page.locator(f"#{chart}-chart").scroll_into_view_if_needed()
        page.get_by_text(text).wait_for()
    write_report(RunView("empty", []), path)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=true]")
    assert "no rounds yet" in page.locator("#subtitle").inner_text()


def test_charts_are_drawn_when_they_come_into_view(open_page):
    small = {"width": 1000, "height": 500}
    page = open_page(viewport=small)
    assert undrawn(page) == [f"{chart}-chart" for chart in CHARTS[1:]]  # the first is in view
    assert drawn(page, "pay").bounding_box()["height"] > 100
    assert "map-chart" in undrawn(page)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # paper has no view
    assert undrawn(page) == []
    page = open_page(viewport=small)
    page.locator("#nav a", has_text="Certificate").click()
    expect(page.locator("#certificate-title")).to_be_in_viewport()
    assert undrawn(page) == []  # heights on the way are known before the page goes there
    page.reload()
    page.wait_for_selector("html[data-ready=true]")
    expect(page.locator("#certificate-title")).to_be_in_viewport()
    assert undrawn(page) == []


def test_as_many_points_as_a_page_may_have(open_page, tmp_path):
    """Of 200,000 values a spread into arguments, as Math.max(...values), fills the stack."""
    from fedmerit.records.agreement_map import pack_agreement
    from fedmerit.types import ClientRecord, RoundRecord

    ids = [f"client {index}" for index in range(400)]
    agreement = np.random.default_rng(0).uniform(-1, 1, size=(400, 400))
    records = [
        RoundRecord(
            number,
            tuple(
                ClientRecord(name, 0.1, 1 / 400, p_value=0.01, epsilon=0.001 * number, reward=1)
                for name in ids
            ),
            agreement=pack_agreement(agreement + agreement.T) if number == 500 else None,
        )
        for number in range(1, 501)
    ]
    path = tmp_path / "large.html"
    write_report(RunView("large", records), path)
    page = open_page(path.as_uri())
    drawn(page, "epsilon")
    page.get_by_text("by more than 0.500 by").wait_for()
    for chart in ("course", "rank", "map", "evidence", "pay", "epsilon"):
        drawn(page, chart).wait_for()
