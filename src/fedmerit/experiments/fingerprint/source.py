"""A module as a list of definitions: what each says, and which names it uses."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fedmerit.errors import DataError

PACKAGES = ("fedmerit", "checks")  # ours; everything else is a library
Chain = tuple[str, ...]  # a name and the attributes asked of it
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_CLOSED_BASES = {"ABC", "Enum", "Generic", "Protocol", "StrEnum"}  # they call dunders only
_UNSAID = {"ctx", "kind", "returns", "type_comment"}


@dataclass(frozen=True)
class Definition:
    """A statement at the top of a module, or a method of a class there.

    Attributes
    ----------
    text : str
        What it says, without comments, docstrings, annotations of functions and layout.
    chains : frozenset of tuples of str
        Names it uses, with the attributes asked of them: ``np.mean`` is ("np", "mean").
    words : frozenset of str
        All names, attributes and identifier-like strings: methods that it may call.
    imports : dict
        Names that it imports itself.
    lines : range
        Where it stands in its file.
    methods : tuple of (str, Definition)
        Of a class; they are not part of `text`.
    open : bool
        Whether it is a class whose methods may be called through a base class.
    """

    text: str
    chains: frozenset[Chain]
    words: frozenset[str]
    imports: dict[str, "Import"]
    lines: range
    methods: tuple[tuple[str, "Definition"], ...] = ()
    open: bool = False


@dataclass(frozen=True)
class Import:
    """What an imported name stands for: a module, or a name in it."""

    module: str
    name: str | None


@dataclass(frozen=True)
class Module:
    """The definitions of a module by name; `effects` bind no name, and run with all of them."""

    name: str
    bound: dict[str, list[Definition]]
    effects: list[Definition]
    imports: dict[str, Import]


def is_ours(module: str) -> bool:
    """Say whether a module is not one of a library."""
    return module.partition(".")[0] in PACKAGES


@cache
def file_of(module: str) -> Path | None:
    """Return the file of one of our modules, None if there is none of that name."""
    if not is_ours(module):
        return None
    package, *rest = module.split(".")
    spec = find_spec(package)  # of a package at the top, which imports nothing
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent.joinpath(*rest)
    found = (path / "__init__.py", path.with_suffix(".py"))
    return next((file for file in found if file.is_file()), None)


@cache
def read_module(name: str) -> Module:
    """Read one of our modules."""
    path = file_of(name)
    if path is None:
        raise DataError(f"module must be one of {' or '.join(PACKAGES)}, got {name}")
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return parse_module(name, path.read_text(encoding="utf-8"), package)


def parse_module(name: str, text: str, package: str) -> Module:
    """Read the source of a module in `package`."""
    module = Module(name, {}, [], {})
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            module.imports.update(_imports(statement, package))
        elif not (_is_text(statement) or _is_for_types(statement)):
            definition = _define(statement, package)
            names = set(_bound(statement))
            for bound in names:
                module.bound.setdefault(bound, []).append(definition)
            if not names:
                module.effects.append(definition)
    return module


def _define(statement: ast.stmt, package: str) -> Definition:
    if not isinstance(statement, ast.ClassDef):
        return _describe(statement, package)
    methods = [part for part in statement.body if isinstance(part, _FUNCTION)]
    rest = [part for part in statement.body if not isinstance(part, _FUNCTION)]
    header = ast.copy_location(
        ast.ClassDef(**{**dict(ast.iter_fields(statement)), "body": rest}), statement
    )
    parts = tuple((method.name, _describe(method, package)) for method in methods)
    bases = {ast.unparse(base).partition("[")[0] for base in statement.bases}
    return replace(_describe(header, package), methods=parts, open=bool(bases - _CLOSED_BASES))


def _describe(statement: ast.stmt, package: str) -> Definition:
    uses = _Uses(package)
    uses.visit(statement)
    if not isinstance(statement, (*_FUNCTION, ast.ClassDef)):  # it may import names for others
        uses.chains.update((name,) for name in uses.imports)
    return Definition(
        "".join(_said(statement)),
        frozenset(uses.chains),
        frozenset(uses.words),
        uses.imports,
        _lines(statement),
    )


def _lines(statement: ast.stmt) -> range:
    decorators = getattr(statement, "decorator_list", [])
    first = min(node.lineno for node in (statement, *decorators))
    return range(first, (statement.end_lineno or first) + 1)


class _Uses(ast.NodeVisitor):
    """Gathers the names that a statement uses, but for annotations."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.chains: set[Chain] = set()
        self.words: set[str] = set()
        self.imports: dict[str, Import] = {}

    def visit_Name(self, node: ast.Name) -> None:
        self.chains.add((node.id,))
        self.words.add(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            chain.insert(0, inner.attr)
            inner = inner.value
        self.words.update(chain)
        if isinstance(inner, ast.Name):
            self.chains.add((inner.id, *chain))
            self.words.add(inner.id)
        else:
            self.visit(inner)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.isidentifier():
            self.words.add(node.value)

    def visit_Import(self, node: ast.Import) -> None:
        self.imports.update(_imports(node, self.package))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.imports.update(_imports(node, self.package))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        pass

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for part in (*node.decorator_list, node.args, *node.body):
            self.visit(part)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)


def _imports(statement: ast.Import | ast.ImportFrom, package: str) -> dict[str, Import]:
    """Return what the names of an import statement stand for."""
    if isinstance(statement, ast.Import):
        return {
            alias.asname or alias.name.partition(".")[0]: Import(
                alias.name if alias.asname else alias.name.partition(".")[0], None
            )
            for alias in statement.names
        }
    parents = package.split(".")[: len(package.split(".")) - statement.level + 1]
    start = ".".join(parents) + "." if statement.level else ""
    module = f"{start}{statement.module or ''}".rstrip(".")
    return {alias.asname or alias.name: Import(module, alias.name) for alias in statement.names}


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement gives a value, or changes the value of."""
    if isinstance(node, (*_FUNCTION, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from _imports(node, "")
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute | ast.Subscript):
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield inner.id
    elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp):
        for child in ast.iter_child_nodes(node):
            yield from _bound(child)


def _said(node: object) -> Iterator[str]:
    """Yield what a statement says, the same in every version of Python.

    Empty fields are left out, because new versions add fields.
    """
    if isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for name, value in ast.iter_fields(node):
            dropped = name in _UNSAID or (name == "annotation" and isinstance(node, ast.arg))
            if not dropped and value is not None and value != []:
                yield f" {name}="
                yield from _said(value)
        yield ")"
    elif isinstance(node, list):
        yield "["
        for part in node:
            if not _is_text(part):
                yield from _said(part)
        yield "]"
    else:
        yield repr(node)


def _is_text(statement: object) -> bool:
    """Say whether a statement is a docstring or another text that does nothing."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_for_types(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test)
