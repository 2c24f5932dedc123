"""`fedmerit ledger`: look at, check, copy and pay from the record of rounds."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from fedmerit.cli.options import Json, completed_from
from fedmerit.cli.output import console, print_json, print_table, shown
from fedmerit.errors import LedgerError, SettingError
from fedmerit.ledger import Ledger, SigningKey
from fedmerit.ledger.export import FORMATS, export, plain

app = typer.Typer(help="The record of rounds, scores and payments.", no_args_is_help=True)

EXIT_CORRUPT = 1

File = Annotated[Path, typer.Argument(help="The ledger.", show_default=False)]
Since = Annotated[
    str | None,
    typer.Option(help="Only rounds recorded at or after this time, as 2024-03-01 (UTC)."),
]
Run = Annotated[int | None, typer.Option(help="Only this run.")]


@app.command()
def show(
    file: File,
    since: Since = None,
    run: Run = None,
    window: Annotated[int, typer.Option(help="Rounds in the moving average.", min=1)] = 10,
    json: Json = False,
) -> None:
    """Show runs, and each client over the rounds: totals, moving average, participation.

    Example: fedmerit ledger show run.ledger --since 2024-03-01
    """
    with Ledger.open(file, read_only=True) as ledger:
        runs, head = ledger.runs(), ledger.head
        clients = ledger.summaries(run=run, since=_moment(since), window=window)
    if json:
        listed = [
            asdict(item)
            | {"started_at": item.started_at.isoformat()}
            | {"public_key": item.public_key.hex() if item.public_key else None}
            for item in runs
        ]
        print_json(plain({"head": head, "runs": listed, "clients": list(map(asdict, clients))}))
        return
    print_table(
        "Runs",
        ("run", "started", "software", "rounds", "signed"),
        [
            (item.run, f"{item.started_at:%Y-%m-%d %H:%M:%S}", item.software, item.rounds,
             "yes" if item.public_key else "no")
            for item in runs
        ],
    )  # fmt: skip
    print_table(
        "Clients",
        ("client", "rounds", "participation", "total score", "mean score", f"last {window}",
         "reward", "flagged", "rejected", "calls itself"),
        [(*tuple(asdict(item).values())[:-1], item.label or "") for item in clients],
    )  # fmt: skip
    console.print(f"Head: {head}", highlight=False, soft_wrap=True)


@app.command()
def keygen(
    path: Annotated[Path, typer.Argument(help="The file to write.", show_default=False)],
    json: Json = False,
) -> None:
    """Make a key that signs ledgers, in a new file that only its owner may read.

    Keep the file away from the ledger, and give the public key that is printed to whoever verifies.

    Example: fedmerit ledger keygen operator.pem
    """
    key = SigningKey.generate()
    key.save(path)
    if json:
        print_json({"public_key": key.public_key.hex()})
    else:
        console.print(f"Public key: {key.public_key.hex()}", highlight=False, soft_wrap=True)


@app.command()
def verify(
    file: File,
    head: Annotated[
        str | None, typer.Option(help="A head noted earlier: it must still be in the chain.")
    ] = None,
    public_key: Annotated[
        str | None, typer.Option(help="Every run must be signed with this key (64 hex digits).")
    ] = None,
    json: Json = False,
) -> None:
    """Check all stored content against the hash chain and name the first bad round.

    Rounds cut off at the end leave a valid, shorter chain: they are seen only with --head. Exit
    code 1 if something is wrong.

    Example: fedmerit ledger verify run.ledger
    """
    with Ledger.open(file, read_only=True) as ledger:
        result = ledger.verify(head=head, public_key=_key(public_key))
    if json:
        print_json({"ok": result.ok, **asdict(result)})
    elif result.ok:
        console.print(f"OK: {result.rounds} rounds of {result.runs} runs are as recorded.")
        console.print(f"Head: {result.head}", highlight=False, soft_wrap=True)
    else:
        console.print(f"BAD: {shown(str(result.problem))}", highlight=False, soft_wrap=True)
    if not result.ok:
        raise typer.Exit(EXIT_CORRUPT)


@app.command("export")
def export_command(
    file: File,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The file to write.", show_default=False)
    ],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"{', '.join(FORMATS)}; default: by the file's name.",
            autocompletion=completed_from(FORMATS),
        ),
    ] = None,
    since: Since = None,
) -> None:
    """Copy rounds to a CSV, JSON or Parquet file.

    Example: fedmerit ledger export run.ledger --out rounds.csv
    """
    with Ledger.open(file, read_only=True) as ledger:
        count = export(ledger, out, form or out.suffix.lstrip("."), since=_moment(since))
    console.print(f"Wrote {count} rounds to {shown(str(out))}.", highlight=False)


@app.command()
def pay(
    file: File,
    since: Since = None,
    after: Annotated[
        str | None,
        typer.Option(help="Only rounds after the entry with this hash: the head of last time."),
    ] = None,
    run: Run = None,
    json: Json = False,
) -> None:
    """List what each client is owed, in the smallest unit of money; refuse a ledger that is bad.

    Note the head that is printed and give it as --after next time: then no round is paid twice or
    forgotten, even if the clock was set back.

    Example: fedmerit ledger pay run.ledger --since 2024-03-01
    """
    with Ledger.open(file, read_only=True) as ledger:
        checked = ledger.verify(head=after)
        checked.require()
        payouts = ledger.payouts(run=run, since=_moment(since), after=after)
    total = sum(payout.amount for payout in payouts)
    if json:
        print_json(
            {"head": checked.head, "total": total, "payouts": [asdict(item) for item in payouts]}
        )
        return
    print_table(
        "Payouts",
        ("client", "amount", "rounds"),
        [(payout.client, payout.amount, payout.rounds) for payout in payouts],
    )
    console.print(f"Total: {total} to {len(payouts)} clients.", highlight=False)
    console.print(f"Head: {checked.head}", highlight=False, soft_wrap=True)


def _moment(value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise SettingError(f"since must be a date or time as 2024-03-01, got {value!r}") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _key(value: str | None) -> bytes | None:
    if value is None:
        return None
    try:
        key = bytes.fromhex(value)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise LedgerError(f"public key must be 64 hexadecimal digits, got {value!r}")
    return key
