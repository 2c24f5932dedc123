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

import pytest
import typer
from typer.testing import CliRunner

import fedmerit
from fedmerit.cli.app import app
from fedmerit.errors import MissingExtraError

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
