"""How commands are told: their help, from docstrings; which one a mistyped name meant."""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperGroup

_AS_IT_STANDS = "\b"  # click's mark for a paragraph whose lines stay


class Commands(TyperGroup):
    """Commands of which the nearest is named once: typer and click would both name it."""

    def nearest(self, name: str) -> list[str]:
        """Return the commands that are called nearly so."""
        return get_close_matches(name, self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, or say which there is."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            near = " or ".join(map(repr, self.nearest(name)))
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {near}?" if near else ""))
        return super().resolve_command(ctx, args)


def with_names(command: Callable[..., Any], names: Mapping[str, str]) -> str:
    """Return the help of a command with the names it takes before the example."""
    text = cleandoc(command.__doc__ or "")
    before, example, after = text.partition("Example:")
    width = max(map(len, names))
    lines = "\n".join(f"  {name:{width}}  {line}" for name, line in names.items())
    return f"{before}{_AS_IT_STANDS}\nNAME is one of\n{lines}\n\n{example}{after}"


def flow_help(app: typer.Typer) -> None:
    """Let the paragraphs of every help text flow: a docstring breaks lines for the source only."""
    for command in app.registered_commands:
        command.help = flowing(command.help or (command.callback and command.callback.__doc__))
    root = app.registered_callback
    if root is not None and root.callback is not None:
        root.help = flowing(root.callback.__doc__)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            flow_help(group.typer_instance)


def flowing(text: str | None) -> str:
    r"""Return a text with one line per paragraph.

    Examples
    --------
    >>> flowing("Short.\n\n    A paragraph\n    of two lines.")
    'Short.\n\nA paragraph of two lines.'
    """
    paragraphs = cleandoc(re.sub(r"\\\n\s+", "", text or "")).split("\n\n")
    return "\n\n".join(
        part if part.lstrip("\n").startswith(_AS_IT_STANDS) else " ".join(part.split("\n"))
        for part in paragraphs
    )
