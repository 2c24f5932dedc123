"""Make the notebook and its page from its script: run all cells, keep what they show.

``python -m checks.pictures.notebook`` writes docs/notebook.md and the notebook behind it.
"""

import base64
import io
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image

from checks import ROOT

HERE = ROOT / "docs" / "notebooks"
SOURCE = HERE / "own_federation.py"
PAGE = HERE.parent / "notebook.md"


def cells_of(text: str) -> list[Any]:
    """Return the cells of a script with ``# %%`` lines."""
    made = []
    for part in re.split(r"^# %%", text, flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        if "[markdown]" in head:
            words = re.sub(r"^# ?", "", body.strip(), flags=re.M)
            made.append(nbformat.v4.new_markdown_cell(words))
        else:
            made.append(nbformat.v4.new_code_cell(body.strip()))
    for number, cell in enumerate(made):
        cell["id"] = f"cell-{number}"
    return made


def executed(text: str, folder: str) -> Any:
    """Return the notebook after all its cells have run, without what differs between machines."""
    book = nbformat.v4.new_notebook(cells=cells_of(text))
    book.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    client = NotebookClient(book, timeout=300, resources={"metadata": {"path": folder}})
    client.execute()
    for cell in book.cells:
        cell.metadata.clear()
        outputs = cell.get("outputs", [])
        # What a machine says to itself: that it compiles, for one.
        outputs[:] = [output for output in outputs if output.get("name") != "stderr"]
        for data in (output.get("data", {}) for output in outputs):
            if "image/png" in data:
                data["image/png"] = _smaller(data["image/png"])
            if "text/html" in data:
                del data["text/plain"]  # the same again, and longer
    return book


def _smaller(picture: str) -> str:
    """Return a picture with as many colours as a diagram needs: a third of the bytes."""
    made = io.BytesIO()
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    image.quantize(16).save(made, "png", optimize=True)
    return base64.b64encode(made.getvalue()).decode()


def page_of(book: Any, pictures: Path) -> str:
    """Return the notebook as Markdown; pictures go to `pictures`."""
    parts = []
    for cell in book.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"    {cell.source}".replace("\n", "\n    ").replace("\n    \n", "\n\n"))
        parts += [shown for output in cell.outputs for shown in _shown(output, pictures)]
    note = (
        "*Made from [the notebook](notebooks/own_federation.ipynb), which the tests run. "
        "[How to install fedmerit](index.md#install).*"
    )
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


def _shown(output: Any, pictures: Path) -> list[str]:
    if output.output_type == "stream":
        return [f"    {output.text.strip()}"]
    data = output.get("data", {})
    if "image/png" in data:
        (pictures / "notebook.png").write_bytes(base64.b64decode(data["image/png"]))
        return ["![Scores of the last round](images/notebook.png)"]
    if "text/html" in data:
        table = re.sub(r"<style.*?</style>", "", data["text/html"], flags=re.S)
        return [re.sub(r"\n\s*", "", table).replace('border="1" ', "")]
    return []


def main() -> None:
    """Write the notebook and its page."""
    with tempfile.TemporaryDirectory() as folder:
        book = executed(SOURCE.read_text(encoding="utf-8"), folder)
    nbformat.write(book, SOURCE.with_suffix(".ipynb"))
    PAGE.write_text(page_of(book, HERE.parent / "images"), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
