"""Everything that an entry can reach, definition by definition.

A function is followed into the functions, classes and constants that it names, through imports and
names that packages pass on. A method counts once its name is used anywhere in what is reached, or
Python or a library may call it. That is more than what runs, never less, but for names that are
put together while running.
"""

from collections import defaultdict
from collections.abc import Iterable

from fedmerit.errors import DataError
from fedmerit.experiments.fingerprint.source import (
    Chain,
    Definition,
    Import,
    Module,
    file_of,
    is_ours,
    read_module,
)

LIBRARIES = "libraries"


class Reach:
    """What was reached.

    Parameters
    ----------
    shut : iterable of str
        Modules and packages that are never entered.
    closed : iterable of str
        Those that are not entered from outside of them; an entry may be inside.

    Attributes
    ----------
    texts : dict from room to set of str
    lines : dict from module to list of ranges
        The same as places in the source.
    """

    def __init__(self, shut: Iterable[str], closed: Iterable[str] = ()) -> None:
        self.texts: dict[str, set[str]] = defaultdict(set)
        self.lines: dict[str, list[range]] = defaultdict(list)
        self._shut, self._closed = tuple(shut), tuple(closed)
        self._due: list[tuple[Module, Definition]] = []
        self._seen: set[int] = set()
        self._words: set[str] = set()
        self._waiting: dict[str, list[tuple[Module, Definition]]] = defaultdict(list)

    def enter(self, entry: str) -> None:
        """Follow ``module`` or ``module:class`` as a whole, or a function, constant or method.

        Of a library the name is all.
        """
        module, _, name = entry.partition(":")
        name, _, method = name.partition(".")
        if not is_ours(module):
            self.texts[LIBRARIES].add(entry)
            return
        found = read_module(module)
        if not name:
            self._whole(found)
        elif name in found.bound and not method:
            self._take_all(found, found.bound[name])
        elif methods := [m for d in found.bound.get(name, ()) for m in d.methods if m[0] == method]:
            self._take(found, [*found.bound[name], *(definition for _, definition in methods)])
        else:
            raise DataError(f"an entry must be defined in its module, got {entry}")
        while self._due:
            self._follow(*self._due.pop())

    def _whole(self, module: Module) -> None:
        for definitions in module.bound.values():
            self._take_all(module, definitions)
        self._take(module, module.effects)

    def _take_all(self, module: Module, definitions: Iterable[Definition]) -> None:
        """Take definitions of which everything may be called, as they are handed out."""
        for definition in definitions:
            self._take(module, [definition, *(method for _, method in definition.methods)])

    def _take(self, module: Module, definitions: Iterable[Definition]) -> None:
        for definition in definitions:
            if id(definition) not in self._seen:
                self._seen.add(id(definition))
                self._due.append((module, definition))

    def _follow(self, module: Module, definition: Definition) -> None:
        self.texts[_room(module.name)].add(definition.text)
        self.lines[module.name].append(definition.lines)
        self._take(module, module.effects)
        for chain in definition.chains:
            self._name(module, chain, definition.imports)
        for word in definition.words - self._words:
            self._words.add(word)
            for where, method in self._waiting.pop(word, ()):
                self._take(where, [method])
        for name, method in definition.methods:
            if definition.open or name.startswith("__") or name in self._words:
                self._take(module, [method])
            else:
                self._waiting[name].append((module, method))

    def _name(self, module: Module, chain: Chain, local: dict[str, Import] | None = None) -> None:
        """Follow a name as it is used in `module`."""
        name, *rest = chain
        if local and name in local:
            self._import(module, name, local[name], rest)
        elif name in module.bound:
            self._take(module, module.bound[name])
        elif name in module.imports:
            self._import(module, name, module.imports[name], rest)
        elif file_of(f"{module.name}.{name}"):
            self._module(module, f"{module.name}.{name}", rest)
        # Otherwise it is a builtin, or local to a function.

    def _import(self, user: Module, name: str, found: Import, rest: list[str]) -> None:
        if not is_ours(found.module):
            self.texts[_room(user.name)].add(f"{name} is {found.module} {found.name}")
        elif found.name is None:
            self._module(user, found.module, rest)
        else:
            self._module(user, found.module, [found.name, *rest])

    def _module(self, user: Module, name: str, rest: list[str]) -> None:
        """Follow an attribute of a module; the whole module where it is used as a value."""
        if _is_in(name, self._shut):
            return
        if _is_in(name, self._closed) and not _is_in(user.name, self._closed):
            return
        if not rest:
            self._whole(read_module(name))
            return
        module, inner = read_module(name), f"{name}.{rest[0]}"
        known = rest[0] in module.bound or rest[0] in module.imports
        # A package may import its own parts by name, too.
        if file_of(inner) and (not known or module.imports.get(rest[0]) == Import(name, rest[0])):
            self._module(user, inner, rest[1:])
        else:
            self._name(module, tuple(rest))


def _is_in(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == known or name.startswith(f"{known}.") for known in packages)


def _room(module: str) -> str:
    """Return the room of a module: what stands below the package."""
    return ".".join(module.split(".")[:2])
