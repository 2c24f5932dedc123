"""The notebook of the documentation: it runs, and its page shows what it showed."""

import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def build():
    return pytest.importorskip("checks.pictures.notebook")


def test_the_notebook_is_the_script_and_the_page_is_the_notebook(build):
    book = nbformat.read(DOCS / "notebooks" / "own_federation.ipynb", as_version=4)
    nbformat.validate(book)
    written = build.cells_of(build.SOURCE.read_text(encoding="utf-8"))
    assert [cell.source for cell in book.cells] == [cell.source for cell in written]
    page = (DOCS / "notebook.md").read_text(encoding="utf-8")
    for cell in book.cells:
        if cell.cell_type == "code":
            assert cell.source.splitlines()[0] in page
    assert sum(cell.cell_type == "code" for cell in book.cells) == 10


@pytest.mark.slow  # it starts a kernel
@pytest.mark.filterwarnings("default")
def test_the_notebook_runs_and_finds_who_did_not_work(build, tmp_path):
    book = build.executed(build.SOURCE.read_text(encoding="utf-8"), str(tmp_path))
    shown = "".join(
        output.get("data", {}).get("text/html", "") + output.get("text", "")
        for cell in book.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    rows = dict(re.findall(r"<tr><td [^>]*>(hospital \d)</td>(.*?)</tr>", shown))
    assert len(rows) == 8
    flagged = {name for name, row in rows.items() if "True" in row}
    assert flagged == {"hospital 6", "hospital 7"}
    assert float(re.search(r"accuracy (\d\.\d+)", shown)[1]) > 0.8
    assert any("image/png" in o.get("data", {}) for c in book.cells for o in c.get("outputs", ()))
