"""Documentation cannot rot: every example in it runs, every command in it is understood."""

import ast
import doctest
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import fedmerit
from fedmerit.cli.app import app
from fedmerit.errors import MissingExtraError
from fedmerit.evidence.cohort import lack_of_power

ROOT = Path(__file__).parent.parent
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
MODULES = [
    module.name
    for module in pkgutil.walk_packages(fedmerit.__path__, "fedmerit.")
    if not module.name.startswith("fedmerit.cli")
]


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks(page, language):
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def commands(lines):
    """Yield the words of every `fedmerit` command, continued lines and comments taken care of."""
    joined = re.sub(r" *\\\n\s*", " ", lines)
    for line in joined.splitlines():
        found = re.match(r"\s*(?:\$ )?(?:\.venv/bin/)?fedmerit (.*)", line)
        if found and "..." not in line:
            yield shlex.split(found[1], comments=True)


def command_lines(page):
    """Return the commands of the indented and fenced blocks of a page that are not Python."""
    text = page.read_text(encoding="utf-8")
    fenced = re.findall(r"^```(?:console|sh|text)?\n(.*?)^```", text, re.M | re.S)
    indented = re.findall(r"^    .*$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return [words for part in (*fenced, "\n".join(indented)) for words in commands(part)]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    module = pytest.importorskip(name, exc_type=MissingExtraError)
    assert doctest.testmod(module).failed == 0


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "(?:python|console)")], ids=name_of)
def test_page_examples_run(page, tmp_path, monkeypatch):
    """Python and console blocks run in the order of the page, in one folder."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    for language, block in blocks(page, "(python|console)"):
        if language == "python":
            exec(compile(block, str(page), "exec"), namespace)
        for words in commands(block) if language == "console" else ():
            outcome = CliRunner().invoke(app, words, catch_exceptions=False)
            assert outcome.exit_code == 0, f"{words}: {outcome.output}"


@pytest.mark.parametrize("page", [p for p in PAGES if command_lines(p)], ids=name_of)
def test_commands_are_understood(page):
    for words in command_lines(page):
        command = typer.main.get_command(app)
        while hasattr(command, "commands") and words and not words[0].startswith("--"):
            name, *words = words
            assert name in command.commands, f"unknown command {name}"
            command = command.commands[name]
        if not hasattr(command, "commands") and "--help" not in words:
            command.make_context(command.name, words)  # reads the words, and calls nothing


@pytest.mark.parametrize("side", ["-", "+"])
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "diff")], ids=name_of)
def test_code_runs_before_and_after_a_change(page, side, tmp_path, monkeypatch):
    """Without what needs a running federation."""
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "diff"):
        lines = [line[1:] for line in block.splitlines() if line[:1] in {side, " "}]
        code = ast.parse("\n".join(lines))
        code.body = [node for node in code.body if "grid" not in ast.unparse(node)]
        assert code.body
        exec(compile(code, str(page), "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_that_installs_says_from_where():
    """Until fedmerit is on PyPI, `pip install` alone finds nothing."""
    pages = {
        page: page.read_text(encoding="utf-8")
        for page in [*PAGES, *sorted((ROOT / "examples").rglob("*.md"))]
    }
    installing = [page for page, text in pages.items() if "pip install 'fedmerit" in text]
    assert len(installing) > 6
    for page in installing:
        if page.name != "pay-clients.md":
            assert "index.md#install)" in pages[page], f"{name_of(page)} does not say from where"
    assert re.search("^## Install$", pages[ROOT / "docs" / "index.md"], re.M)


@pytest.mark.parametrize("page", sorted((ROOT / "examples").rglob("*.md")), ids=name_of)
def test_links_of_examples_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


def test_every_example_says_what_it_is_and_is_listed():
    listed = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    folders = [path.name for path in (ROOT / "examples").iterdir() if path.is_dir()]
    assert len(folders) == 4
    for name in folders:
        assert f"[{name}]({name}/README.md)" in listed
        assert "pip install" in (ROOT / "examples" / name / "README.md").read_text("utf-8")


def test_the_round_that_the_start_saves_runs_alone_and_is_the_one_it_scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scored, saved = (
        block for block in blocks(ROOT / "docs" / "index.md", "python") if "updates[5] =" in block
    )
    first, alone = {}, {}
    exec(scored, first)
    exec(saved, alone)
    assert np.array_equal(first["updates"], alone["updates"])
    with np.load("updates.npz") as found:
        assert list(found) == alone["clients"]


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "index.md"], ids=name_of)
def test_ids_become_text_as_pages_say(page):
    assert "Client ids become text" in page.read_text(encoding="utf-8")
    rng = np.random.default_rng(0)
    with fedmerit.Server(np.zeros(500)) as server:
        result = server.settle(updates={0: rng.normal(size=500), 1: rng.normal(size=500)})
    assert result.weights["0"] == result.weights["1"] == 0.5


def test_how_many_parameters_are_needed_is_what_the_code_asks_for():
    page = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    needed = int(re.search(r"so (\d+) with twelve vectors", page)[1])
    vectors = np.ones((12, 1))
    assert lack_of_power(needed, vectors) == ""
    assert f"at least {needed} parameters" in lack_of_power(needed - 1, vectors)


def test_readme_examples_have_at_most_15_lines():
    for example in blocks(ROOT / "README.md", "python"):
        assert len([line for line in example.splitlines() if line.strip()]) <= 15


def test_api_reference_is_complete():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    public = {name for name in fedmerit.__all__ if not name.startswith("__")}
    assert public <= set(re.findall(r"fedmerit\.[\w.]*?(\w+)\b(?!\.)", text))


class Fetched(HTMLParser):
    """Collects what a browser would fetch to show a page."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "link":
            self.addresses.append(attributes.get("href"))
        elif tag != "a":
            self.addresses += [attributes.get("src"), attributes.get("data")]


@pytest.mark.slow
def test_site_builds_without_warnings_and_fetches_nothing_from_elsewhere(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) >= len(list((ROOT / "docs").rglob("*.md")))
    for page in pages:
        parser = Fetched()
        parser.feed(page.read_text(encoding="utf-8"))
        foreign = [a for a in parser.addresses if a and re.match(r"(https?:)?//", a)]
        assert not foreign, f"{page.name} fetches {foreign}"
        assert 'class="mermaid"' not in page.read_text(encoding="utf-8")  # fetched from elsewhere
    for sheet in tmp_path.rglob("*.css"):
        assert not re.search(r"(url\(|@import\s*)[\"']?(https?:)?//", sheet.read_text("utf-8"))
