"""Flags: what speaks against a client's report, as values. Words are made where they are shown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class Kind(StrEnum):
    """Why a report has no weight, no pay, or stands under suspicion.

    Some kinds accuse: the client is taken not to have done its own work, or to harm the model. The
    others only say why there is no weight or no pay.
    """

    EXPLAINED = "explained"
    REPEATED = "repeated"
    INDEPENDENT = "independent"
    CLIQUE = "clique"
    NAMED = "named"
    STANDING = "standing"
    COPY = "copy"
    REVERSED = "reversed"
    HARMS = "harms"
    LONG = "long"
    UNDECIDED = "undecided"
    UNWEIGHED = "unweighed"
    UNPAID = "unpaid"
    REFUSED = "refused"
    ABSENT = "absent"
    SKIPPED = "skipped"
    OTHER = "other"

    @property
    def accuses(self) -> bool:
        """Whether this kind says that a client did not do its own work, or harms the model."""
        return self not in _HARMLESS

    @property
    def words(self) -> str:
        """The kind for people, without detail."""
        return _WORDS[self]


_WORDS = {
    Kind.EXPLAINED: "explained by public information",
    Kind.REPEATED: "explained by its own earlier reports",
    Kind.INDEPENDENT: "independent of every peer",
    Kind.CLIQUE: "agrees only with a clique",
    Kind.NAMED: "has not worked in earlier rounds",
    Kind.STANDING: "accused before, and has not shown more work since",
    Kind.COPY: "near-copy",
    Kind.REVERSED: "reversed",
    Kind.HARMS: "harms the model",
    Kind.LONG: "longer than its data size accounts for",
    Kind.UNDECIDED: "undecided",
    Kind.UNWEIGHED: "the weighting leaves nothing for this report",
    Kind.UNPAID: "the reward rule pays nothing for this score",
    Kind.REFUSED: "rejected",
    Kind.ABSENT: "no reply",
    Kind.SKIPPED: "round skipped",
    Kind.OTHER: "flagged",
}
_HARMLESS = frozenset(
    {
        Kind.REVERSED,
        Kind.LONG,
        Kind.UNDECIDED,
        Kind.UNWEIGHED,
        Kind.UNPAID,
        Kind.REFUSED,
        Kind.ABSENT,
        Kind.SKIPPED,
    }
)
_BRACKETED = re.compile(r"(?P<words>.*?) \((?P<detail>[^()]*)\)", re.DOTALL)
_TWIN = "near-copy of client "


@dataclass(frozen=True)
class Flag:
    """One reason against a report.

    Attributes
    ----------
    kind : Kind
    detail : str
        What differs from report to report of one kind: a share, a rule that was broken.
    twin : str
        The client that this one is nearly a copy of; a row number inside `Contributions`, a name in
        records; empty where there is none.
    """

    kind: Kind
    detail: str = ""
    twin: str = ""

    @property
    def accuses(self) -> bool:
        """Whether the flag says that the client did not do its own work."""
        return self.kind.accuses

    @property
    def words(self) -> str:
        """The flag for people."""
        if self.twin:
            return f"{self.kind.words} of client {self.twin}"
        if not self.detail:
            return self.kind.words
        if self.kind is Kind.OTHER:
            return self.detail
        if self.kind in (Kind.EXPLAINED, Kind.REPEATED):
            return f"{self.kind.words} ({self.detail})"
        return f"{self.kind.words}: {self.detail}"

    def with_names(self, names: Sequence[str]) -> "Flag":
        """Return the flag with the twin's name in place of its row number."""
        return replace(self, twin=names[int(self.twin)]) if self.twin else self


def read_words(words: str) -> Flag:
    """Return the flag that older records wrote as `words`.

    Examples
    --------
    >>> read_words("near-copy of client 7")
    Flag(kind=<Kind.COPY: 'copy'>, detail='', twin='7')
    >>> read_words("explained by public information (98%)").detail
    '98%'
    """
    if words.startswith(_TWIN):
        return Flag(Kind.COPY, twin=words.removeprefix(_TWIN))
    bracketed = _BRACKETED.fullmatch(words)
    for kind, text in _WORDS.items():
        if words == text:
            return Flag(kind)
        if bracketed is not None and bracketed["words"] == text:
            return Flag(kind, bracketed["detail"])
        if words.startswith(f"{text}: "):
            return Flag(kind, words.removeprefix(f"{text}: "))
    return Flag(Kind.OTHER, words)
