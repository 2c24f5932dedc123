"""Pay lists: what is owed for one stretch of the chain, from the very rows that were verified.

A list covers every round behind one entry up to another, and no other round. Lists put end to end,
each beginning where the last one ended, pay every round once. The same stretch gives the same list
with the same id, however often it is asked for and whatever is recorded meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fedmerit.errors import LedgerCorruptError, LedgerError
from fedmerit.ledger.file.reading import Selection, parse_hash, to_microseconds
from fedmerit.ledger.proof.encoding import FIRST_PREVIOUS, entry_hash
from fedmerit.ledger.proof.verification import CheckedEntry, Verification
from fedmerit.ledger.summary import Payout, add_up

_LABEL = "fedmerit pay list 1"


@dataclass(frozen=True)
class PayList:
    """What each client is owed for a stretch of rounds.

    Attributes
    ----------
    id : str
        The same for the same stretch and amounts: a list with an id that was paid is not paid
        again.
    after : str or None
        Hash of the newest round that is not in the list because it came before; None if all from
        the first are in it.
    head : str or None
        Hash of the entry that the list reaches to: the `after` of the next list.
    rounds : int
        How many rounds are in it.
    earlier : int
        How many rounds came before it: those up to `after`, which earlier lists paid.
    payouts : tuple of Payout
    """

    id: str
    after: str | None
    head: str | None
    rounds: int
    earlier: int
    payouts: tuple[Payout, ...]

    @property
    def total(self) -> int:
        """Sum of all amounts."""
        return sum(payout.amount for payout in self.payouts)

    def reference(self, client: str) -> str:
        """Return what names one transfer: a bank that knows it must not send it again."""
        return entry_hash((self.id, client)).hex()[:32]


def pay_list_of(
    entries: Sequence[CheckedEntry], selection: Selection, until: str | None
) -> PayList:
    """List what is owed for rounds of a chain that was verified; nothing is read again.

    Raises
    ------
    LedgerError
        The selection is not one stretch of the chain: some round would be lost, or paid again.
    """
    first = 0 if selection.after is None else _place(entries, selection.after)
    newest = entries[-1].hash.hex() if entries else None
    end = newest if until is None else until
    last = 0 if end is None else _place(entries, end)
    if last < first:
        raise LedgerError("until must be an entry behind that of after, got one before it")
    if selection.run is not None and all(entry.run != selection.run for entry in entries):
        known = ", ".join(map(str, sorted({entry.run for entry in entries})))
        raise LedgerError(f"run must be one of {known}, got {selection.run}")
    rounds = [entry for entry in entries if entry.is_round]
    inside = [found for found in rounds if first < found.sequence <= last]
    chosen = [found for found in inside if _is_chosen(found, selection)]
    _require_stretch(inside, chosen, selection)
    _require_amounts(chosen)
    if len(chosen) < len(inside):
        end = chosen[-1].hash.hex() if chosen else selection.after
    begin = chosen[0].sequence if chosen else first + 1
    before = [found for found in rounds if found.sequence < begin]
    payouts = tuple(add_up(zip(found.clients, found.rewards, strict=True) for found in chosen))
    start = before[-1].hash if before else FIRST_PREVIOUS
    stop = chosen[-1].hash if chosen else start
    rows = [(payout.client, payout.amount, payout.rounds) for payout in payouts]
    return PayList(
        id=entry_hash((_LABEL, start, stop), (rows,)).hex(),
        after=before[-1].hash.hex() if before else None,
        head=end,
        rounds=len(chosen),
        earlier=len(before),
        payouts=payouts,
    )


def require_one_origin(checked: Verification) -> None:
    """Refuse to pay from a ledger some of whose runs are signed and others not, or by others."""
    if len(checked.keys) > 1:
        words = ", ".join(key or "none" for key in checked.keys)
        raise LedgerCorruptError(
            f"runs must all be signed with keys that you name (--public-key), got runs with "
            f"different keys: {words}"
        )


def _place(entries: Sequence[CheckedEntry], digest: str) -> int:
    """Return the place in the chain of the entry with hash `digest`."""
    wanted = parse_hash(digest)
    for entry in entries:
        if entry.hash == wanted:
            return entry.sequence
    raise LedgerError(f"hash must be that of an entry of this ledger, got {digest}")


def _is_chosen(found: CheckedEntry, selection: Selection) -> bool:
    in_run = selection.run is None or found.run == selection.run
    since = selection.since
    return in_run and (since is None or found.recorded_at >= to_microseconds(since))


def _require_stretch(
    inside: Sequence[CheckedEntry], chosen: Sequence[CheckedEntry], selection: Selection
) -> None:
    if not chosen:
        return
    begin, end = inside.index(chosen[0]), inside.index(chosen[-1])
    if end - begin + 1 != len(chosen):
        rule = "other rounds lie between them, which no later list would pay"
    elif begin > 0:
        rule = (
            f"{begin} rounds come before them, which no later list would pay; if they were paid, "
            f"say so with --after {inside[begin - 1].hash.hex()}"
        )
    elif selection.since is not None and end + 1 < len(inside) and selection.run is None:
        rule = "later rounds have an earlier time, so the clock was set back: use --after"
    else:
        return
    raise LedgerError(f"a pay list must be one stretch of rounds, got {len(chosen)}: {rule}")


def _require_amounts(chosen: Sequence[CheckedEntry]) -> None:
    """Refuse rewards below nothing, which no writer of ours records: what is owed is unclear."""
    for found in chosen:
        for client, reward in zip(found.clients, found.rewards, strict=True):
            if reward is not None and reward < 0:
                raise LedgerCorruptError(
                    f"rewards must not be negative, got {reward} for {client!r} in entry "
                    f"{found.sequence}"
                )
