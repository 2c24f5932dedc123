"""House rules, by the syntax trees of the source: scorers are not told apart, words not read."""

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import fedmerit
from checks.studies.trace import settled_round
from fedmerit.scorers import SCORERS

SOURCE = Path(fedmerit.__file__).parent
ROOT = Path(__file__).parents[1]
TREES = {
    path.relative_to(SOURCE): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(SOURCE.rglob("*.py"))
}
SCORER_CLASSES = {scorer.__name__ for scorer in SCORERS.values()}
# Texts for people. What a program decides by are `Flag` and `Kind`.
WORDS = {"reason", "reasons", "words"}
# Methods that look into a text, and functions that search one.
LOOKS = {
    *("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "partition"),
    *("rpartition", "split", "rsplit", "removeprefix", "removesuffix", "__contains__", "__eq__"),
}
# What takes equal ones of many together, and what finds or keeps something by one.
GATHERS = {"set", "frozenset", "Counter", "fromkeys", "groupby"}
KEYS = {"add", "discard", "get", "pop", "setdefault"}
SEARCHES = {"match", "fullmatch", "search", "findall", "finditer", "sub", "subn", "split"}


def last_name(node):
    """The name at the end of ``a.b.c``, or of ``c``."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


def classes_asked_for(call):
    """The names of the classes in ``isinstance(x, A | B)`` or ``isinstance(x, (A, B))``."""
    return {last_name(node) for node in ast.walk(call.args[1])} - {None}


def told_apart(tree):
    """Where scorers are told apart by their class, or by the name of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and last_name(node.func) in {"isinstance", "issubclass"}:
            found = classes_asked_for(node) & SCORER_CLASSES
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            typed = any(isinstance(s, ast.Call) and last_name(s.func) == "type" for s in sides)
            typed |= any(last_name(side) in {"__class__", "__name__"} for side in sides)
            named = {part for side in sides for part in map(last_name, ast.walk(side))}
            named |= {s.value for s in sides if isinstance(s, ast.Constant)}
            found = named & SCORER_CLASSES if typed else set()
        elif isinstance(node, ast.MatchClass):
            found = {last_name(node.cls)} & SCORER_CLASSES
        else:
            continue
        if found:
            yield node.lineno, sorted(found)


def is_words(node):
    """Whether an expression is a text for people, as it is or a little changed."""
    if isinstance(node, ast.Attribute):
        return node.attr in WORDS
    if isinstance(node, ast.Subscript):
        return is_words(node.value)
    if isinstance(node, ast.BoolOp):
        return any(map(is_words, node.values))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return is_words(node.func.value)  # .lower(), .strip()
    return isinstance(node, ast.NamedExpr) and is_words(node.value)


def are_words(node):
    """Whether an expression is several texts for people, or gives them one by one."""
    if isinstance(node, ast.GeneratorExp | ast.ListComp):
        return is_words(node.elt)
    return last_name(node) == "reasons"


def told_apart_by_words(node):
    """Whether texts for people become members of a set or keys: equal ones fall together."""
    if isinstance(node, ast.SetComp):
        return is_words(node.elt)
    if isinstance(node, ast.Set):
        return any(map(is_words, node.elts))
    if isinstance(node, ast.DictComp):
        return is_words(node.key)
    if isinstance(node, ast.Dict):
        return any(map(is_words, filter(None, node.keys)))
    if isinstance(node, ast.Subscript):
        return is_words(node.slice)
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        found = name in KEYS and any(map(is_words, node.args[:1]))
        return found or (name in GATHERS and any(map(are_words, node.args)))
    return False


def words_read(tree):
    """Where a text for people is compared, looked into, or told from others by a set or a key."""
    for node in ast.walk(tree):
        if told_apart_by_words(node):
            read = True
        elif isinstance(node, ast.Compare):
            read = any(map(is_words, [node.left, *node.comparators]))
        elif isinstance(node, ast.Match):
            read = is_words(node.subject)
        elif isinstance(node, ast.Call):
            own = isinstance(node.func, ast.Attribute)
            looks = own and node.func.attr in LOOKS and is_words(node.func.value)
            searched = last_name(node.func) in SEARCHES and any(map(is_words, node.args))
            read = looks or searched
        else:
            continue
        if read:
            yield node.lineno


def test_scorers_are_told_apart_by_what_they_need_not_by_their_class():
    found = {
        f"{path}:{line}": names
        for path, tree in TREES.items()
        if path.parts[0] != "scorers"
        for line, names in told_apart(tree)
    }
    assert found == {}


def test_nothing_is_decided_by_words_for_people():
    found = [f"{path}:{line}" for path, tree in TREES.items() for line in words_read(tree)]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(scorer, Merit)",
        "isinstance(rules.scorer, scorers.ConditionalPCA)",
        "isinstance(scorer, (int, ExactPCA))",
        "isinstance(scorer, PublishedPCA | None)",
        "issubclass(kind, Merit)",
        "type(scorer) is Merit",
        "scorer.__class__ == Merit",
        "type(scorer).__name__ == 'Merit'",
        "match scorer:\n case Merit(): pass",
    ],
)
def test_the_search_finds_scorers_that_are_told_apart(code):
    assert list(told_apart(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "client.reason == 'reversed'",
        "'clique' in client.reason",
        "client.reason in known",
        "result.reasons[3] != ''",
        "flag.words.startswith('near-copy')",
        "(client.reason or '').split(': ')",
        "client.reason.lower().endswith('x')",
        "re.fullmatch('explained.*', client.reason)",
        "_PATTERN.search(flag.words)",
        "match client.reason:\n case 'reversed': pass",
        "kind.words == 'undecided'",
        "len({refusal.reason for refusal in rejected}) == 1",
        "{first.reason, second.reason}",
        "set(refusal.reason for refusal in rejected)",
        "len(set(reasons)) == 1",
        "Counter([refusal.reason for refusal in rejected])",
        "dict.fromkeys(refusal.reason for refusal in rejected)",
        "{refusal.reason: refusal.client for refusal in rejected}",
        "{refusal.reason: 1}",
        "handlers[client.reason]()",
        "handlers.get(flag.words)",
        "seen.add(client.reason)",
    ],
)
def test_the_search_finds_words_that_are_read(code):
    assert list(words_read(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "print(client.reason)",
        "client.reason or '-'",
        "[refusal.reason for refusal in rejected if refusal.kind is Kind.REFUSED]",
        "{refusal.client: refusal.reason for refusal in rejected}",
        "rejected[refusal.client].reason",
        "isinstance(scorer, Scorer)",
        "flag.kind is Kind.EXPLAINED",
        "sorted(flags, key=lambda flag: flag.words)",
    ],
)
def test_the_search_lets_the_rest_through(code):
    tree = ast.parse(code)
    assert [*told_apart(tree), *words_read(tree)] == []


def test_the_architecture_names_every_room_and_no_other():
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("| room |")[2].partition("\n\n")[0]
    told = {
        name.strip("/")
        for line in table.splitlines()[2:]
        for name in re.findall(r"`([a-z_/.]+)`", line.split("|")[1])
    }
    rooms = {path.parts[0] for path in TREES} - {"__init__.py"}
    assert told == rooms


def test_a_room_has_at_most_a_dozen_files():
    files = Counter(path.parent for path in TREES if path.name != "__init__.py")
    assert {str(room): count for room, count in files.items() if count > 12} == {}


def test_one_settled_round_is_a_short_way_to_read():
    way = settled_round().without_kernels()
    assert len(way.files) <= 20
    assert way.hops <= 60


def tracked():
    """The files that git keeps, or a skip where this is not a clone."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a clone: there is no list of tracked files")
    return [
        path for name in listed.stdout.decode().split("\0")[:-1] if (path := ROOT / name).exists()
    ]


def test_the_tracked_tree_is_below_five_million_bytes():
    assert sum(path.stat().st_size for path in tracked()) < 5_000_000


def test_every_picture_is_shown_by_a_page():
    files = tracked()
    shown = "".join(
        path.read_text(encoding="utf-8") for path in files if path.suffix in {".md", ".ipynb"}
    )
    pictures = [
        path for path in files if path.suffix in {".svg", ".png", ".webp"} and "docs" in path.parts
    ]
    assert [path.name for path in pictures if path.name not in shown] == []
