"""`fedmerit statement`: what one client is shown of a ledger, and how it checks that."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fedmerit.cli.help import Commands
from fedmerit.cli.options import Json
from fedmerit.cli.output import console, print_json, print_table, shown
from fedmerit.cli.records.ledger import (
    EXIT_CORRUPT,
    AnchorLog,
    PublicKey,
    WitnessKey,
    given_anchors,
    given_keys,
)
from fedmerit.disk.files import read_at_most, whole_file
from fedmerit.errors import DataError, LedgerCorruptError, LedgerError
from fedmerit.ledger import Ledger, StatementCheck, check_statement
from fedmerit.ledger.proof.statement import read_json, to_json
from fedmerit.report.statement import remark_of, write_statement_page

_MOST_BYTES = 1 << 27


class _WriteByDefault(Commands):
    """`fedmerit statement run.ledger ...` is `fedmerit statement write run.ledger ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            mistyped = self.nearest(args[0]) and not Path(args[0]).exists()
            args = args if mistyped else ["write", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_WriteByDefault,
    help="What one client is shown of a ledger: rounds, scores, flags, pay, with proofs.",
    no_args_is_help=True,
)

Page = Annotated[Path | None, typer.Option(help="Also write it as a page to print (HTML).")]


@app.command()
def write(
    ledger: Annotated[Path, typer.Argument(help="The ledger.", show_default=False)],
    client: Annotated[str, typer.Option(help="Whose statement.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The statement to write.")] = Path(
        "statement.json"
    ),
    page: Page = None,
) -> None:
    """Write a statement for one client: its rounds, scores, weights, flags and pay, with proofs.

    The client checks it with `fedmerit statement verify` and the public key. It shows no row of
    anybody else. `fedmerit statement run.ledger --client X` is short for it.

    Example: fedmerit statement write run.ledger --client "client 1"
    """
    with Ledger.open(ledger, read_only=True) as opened:
        made = opened.statement(client)
    found = check_statement(made)
    if found.problem is not None:
        raise LedgerCorruptError(f"{ledger}: {found.problem}")
    try:
        with whole_file(out) as partial:
            partial.write_text(to_json(made), encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot write {out}: {error.strerror or error}") from error
    if page is not None:
        write_statement_page(found, page)
    console.print(
        f"Wrote {len(found.rounds)} rows of {shown(repr(client))} to {shown(str(out))}.",
        highlight=False,
        soft_wrap=True,
    )


@app.command()
def verify(
    statement: Annotated[Path, typer.Argument(help="The statement.", show_default=False)],
    public_key: PublicKey = None,
    anchor: AnchorLog = None,
    witness_key: WitnessKey = None,
    page: Page = None,
    json: Json = False,
) -> None:
    """Check a statement without the ledger: every row, up to the signed head.

    Take the public key from somewhere else than the statement. Exit code 1 if something is wrong.

    Example: fedmerit statement verify statement.json
    """
    try:
        content = read_at_most(statement, _MOST_BYTES)
    except OSError as error:
        raise LedgerError(f"cannot read {statement}: {error.strerror or error}") from error
    found = check_statement(
        read_json(content),
        public_key=given_keys(public_key),
        anchors=given_anchors(anchor, witness_key),
    )
    if page is not None:
        write_statement_page(found, page)
    if json:
        sums = {"ok": found.ok, "total": found.total, "stated": found.stated}
        print_json({**sums, **asdict(found)})
    else:
        _print(found)
    if not found.ok:
        raise typer.Exit(EXIT_CORRUPT)


def _print(found: StatementCheck) -> None:
    if not found.ok:
        console.print(f"BAD: {shown(str(found.problem))}", highlight=False, soft_wrap=True)
        return
    print_table(
        f"Statement for {found.client!r}",
        ("run", "round", "score", "weight", "paid", "remark"),
        [
            (s.run, s.round, *("" if v is None else v for v in (s.score, s.weight, s.reward)),
             remark_of(s))
            for s in found.rounds
        ],
    )  # fmt: skip
    shown_rows = sum(stated.proven for stated in found.rounds)
    console.print(f"OK: {found.total} paid in {shown_rows} rows.", highlight=False)
    if shown_rows < len(found.rounds):
        rest = len(found.rounds) - shown_rows
        console.print(f"Stated only: {found.stated} paid in {rest} more rows.", highlight=False)
    for words in found.proven:
        console.print(f"Proven: {words}.", highlight=False, soft_wrap=True)
    for words in found.open:
        console.print(f"Not proven: {words}.", highlight=False, soft_wrap=True)
    if found.head is not None:
        console.print(f"Head: {found.head.hash}", highlight=False, soft_wrap=True)
