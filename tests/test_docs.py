"""Documentation cannot rot: every example in it runs."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import fedmerit

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = [
    module.name
    for module in pkgutil.walk_packages(fedmerit.__path__, "fedmerit.")
    if not module.name.startswith("fedmerit.cli")
]


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("page", [p for p in PAGES if python_blocks(p)], ids=lambda p: p.name)
def test_page_examples_run(page):
    namespace = {"__name__": "page"}
    for block in python_blocks(page):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_readme_example_is_about_ten_lines():
    example = python_blocks(ROOT / "README.md")[0]
    assert len([line for line in example.splitlines() if line.strip()]) <= 12
