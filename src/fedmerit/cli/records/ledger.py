"""`fedmerit ledger`: look at, check, copy and pay from the record of rounds."""

from dataclasses import asdict
from datetime import UTC, datetime
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from fedmerit.cli.help import Commands
from fedmerit.cli.options import Json, completed_from
from fedmerit.cli.output import console, print_json, print_table, shown
from fedmerit.disk.files import whole_file
from fedmerit.errors import DataError, LedgerCorruptError, LedgerError, SettingError
from fedmerit.ledger import Anchor, Ledger, SigningKey, append_head, read_head, read_log
from fedmerit.ledger.export import FORMATS, export, plain
from fedmerit.ledger.proof.heads import to_json
from fedmerit.ledger.proof.signing import parse_key

app = typer.Typer(
    cls=Commands, help="The record of rounds, scores and payments.", no_args_is_help=True
)

EXIT_CORRUPT = 1
_SQLITE = b"SQLite format 3\x00"

File = Annotated[Path, typer.Argument(help="The ledger.", show_default=False)]
Since = Annotated[
    str | None,
    typer.Option(help="Only rounds recorded at or after this time, as 2024-03-01 (UTC)."),
]
Run = Annotated[int | None, typer.Option(help="Only this run.")]
PublicKey = Annotated[
    list[str] | None,
    typer.Option(help="Every run must be signed with this key (64 hex digits), or one of several."),
]
AnchorLog = Annotated[
    Path | None, typer.Option("--anchor", help="A log of heads that must all be in the chain.")
]
WitnessKey = Annotated[
    str | None, typer.Option(help="Key that signed every line of the log of heads.")
]


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
         "reward", "flagged", "undecided", "rejected", "calls itself"),
        [
            (item.client, item.rounds, item.participation, item.total_score, item.mean_score,
             item.moving_average, item.total_reward, item.flagged, item.undecided, item.rejected,
             item.label or "")
            for item in clients
        ],
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
    public_key: PublicKey = None,
    anchor: AnchorLog = None,
    witness_key: WitnessKey = None,
    json: Json = False,
) -> None:
    """Check all stored content against the hash chain and name the first bad round.

    It says what that proves and what it leaves open. Rounds cut off at the end leave a valid,
    shorter chain, signed or not: they are seen only with --anchor or --head. Exit code 1 if
    something is wrong.

    Example: fedmerit ledger verify run.ledger
    """
    with Ledger.open(file, read_only=True) as ledger:
        result = ledger.verify(
            head=head, public_key=given_keys(public_key), anchors=given_anchors(anchor, witness_key)
        )
    if json:
        print_json({"ok": result.ok, **asdict(result)})
    elif result.ok:
        console.print(f"OK: {result.rounds} rounds of {result.runs} runs are as recorded.")
        for words in result.proven:
            console.print(f"Proven: {words}.", highlight=False, soft_wrap=True)
        for words in result.open:
            console.print(f"Not proven: {words}.", highlight=False, soft_wrap=True)
        console.print(f"Ledger: {result.ledger}", highlight=False, soft_wrap=True)
        console.print(f"Head: {result.head}", highlight=False, soft_wrap=True)
    else:
        console.print(f"BAD: {shown(str(result.problem))}", highlight=False, soft_wrap=True)
    if not result.ok:
        raise typer.Exit(EXIT_CORRUPT)


@app.command()
def head(
    file: File,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write it to this file.")
    ] = None,
) -> None:
    """Print the head as JSON: what a witness signs, and what may be kept anywhere.

    It holds the ledger's id, how many runs and rounds there are, the newest hash and its signature;
    no client, no score, no amount.

    Example: fedmerit ledger head run.ledger
    """
    with Ledger.open(file, read_only=True) as ledger:
        text = to_json(ledger.signed_head())
    if out is not None:
        _write(out, text)
    print(text)


@app.command()
def anchor(
    file: File,
    to: Annotated[Path, typer.Option(help="The log of heads, elsewhere.", show_default=False)],
    public_key: PublicKey = None,
) -> None:
    """Verify the ledger and add its head to a log that is kept elsewhere, for `verify --anchor`.

    Example: fedmerit ledger anchor run.ledger --to heads.log
    """
    with Ledger.open(file, read_only=True) as ledger:
        _say_anchored(ledger.anchor(to, public_key=given_keys(public_key)), to)


@app.command()
def witness(
    source: Annotated[
        Path, typer.Argument(help="A head, from `ledger head`, or a ledger.", show_default=False)
    ],
    log: Annotated[Path, typer.Option(help="The witness's log of heads.", show_default=False)],
    sign: Annotated[
        Path,
        typer.Option(help="The witness's own key; made if there is none.", show_default=False),
    ],
    public_key: PublicKey = None,
) -> None:
    """Sign a head as a witness who remembers: refuse one that takes anything back.

    The witness needs no ledger, only its head. A head with fewer entries than one seen before, or
    another one with as many, is refused, and so is one that --public-key did not sign, or without
    it, one that is not signed as the last one was. Of a ledger, all is verified, and it must have
    every head that the log has of it.

    Example: fedmerit ledger witness run.ledger --log witness.log --sign witness.pem
    """
    if not source.is_file():
        raise LedgerError(f"there must be a head or a ledger at {source}, got no file")
    keys = given_keys(public_key)
    if _is_ledger(source):
        with Ledger.open(source, read_only=True) as ledger:
            ledger.verify(public_key=keys).require()
            key = _witness(sign)
            line = ledger.anchor(log, key=key, public_key=keys)
    else:
        found = read_head(source)
        problems = [found.problem(key) for key in keys] if keys else [found.problem()]
        if all(problems):
            raise LedgerCorruptError(f"{source}: {problems[0]}")
        key = _witness(sign)
        line = append_head(log, found, key=key, public_key=keys)
    _say_anchored(line, log)
    console.print(f"Witness key: {key.public_key.hex()}", highlight=False, soft_wrap=True)


def _is_ledger(source: Path) -> bool:
    with source.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _witness(path: Path) -> SigningKey:
    if not path.exists():
        SigningKey.generate().save(path)
    return SigningKey.load(path)


def _say_anchored(line: Anchor, log: Path) -> None:
    seen = f"{line.head.sequence} entries of ledger {line.head.ledger}"
    console.print(
        f"{shown(str(log))} knows {seen} since {line.at}.", highlight=False, soft_wrap=True
    )


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
        typer.Option(help="Only rounds after the entry with this hash: the head of the last list."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Only rounds up to the entry with this hash: an old list once more."),
    ] = None,
    run: Run = None,
    public_key: PublicKey = None,
    anchor: AnchorLog = None,
    witness_key: WitnessKey = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the list as JSON, whole or not.")
    ] = None,
    json: Json = False,
) -> None:
    """List what each client is owed, in the smallest unit of money; refuse a ledger that is bad.

    The list is made from what was verified, as of one moment, and covers one stretch of rounds.
    Note the head that is printed and give it as --after next time: then no round is paid twice or
    forgotten. The same stretch has the same id: do not pay an id twice.

    Example: fedmerit ledger pay run.ledger --out list.json
    """
    with Ledger.open(file, read_only=True) as ledger:
        owed = ledger.pay_list(
            after=after,
            until=until,
            run=run,
            since=_moment(since),
            public_key=given_keys(public_key),
            anchors=given_anchors(anchor, witness_key),
        )
    content = {
        "id": owed.id,
        "after": owed.after,
        "head": owed.head,
        "rounds": owed.rounds,
        "earlier": owed.earlier,
        "total": owed.total,
        "payouts": [asdict(item) for item in owed.payouts],
        "references": [owed.reference(item.client) for item in owed.payouts],
    }
    if out is not None:
        _write(out, dumps(content, ensure_ascii=False))
    if json:
        print_json(content)
        return
    print_table(
        "Payouts",
        ("client", "amount", "rounds"),
        [(payout.client, payout.amount, payout.rounds) for payout in owed.payouts],
    )
    console.print(f"Total: {owed.total} to {len(owed.payouts)} clients.", highlight=False)
    if owed.earlier:
        console.print(f"Not in the list: {owed.earlier} earlier rounds.", highlight=False)
    console.print(f"List: {owed.id}", highlight=False, soft_wrap=True)
    console.print(f"Head: {owed.head}", highlight=False, soft_wrap=True)


def _write(path: Path, text: str) -> None:
    try:
        with whole_file(path) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error


def _moment(value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise SettingError(f"since must be a date or time as 2024-03-01, got {value!r}") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def given_keys(values: list[str] | None) -> list[bytes] | None:
    """Return the public keys that were given."""
    return [parse_key(value) for value in values] if values else None


def given_anchors(log: Path | None, witness_key: str | None) -> list[Anchor] | None:
    """Return the heads of the log that was given."""
    if log is None:
        if witness_key is not None:
            raise SettingError("--witness-key needs the log it signed, --anchor, got none")
        return None
    return read_log(log, None if witness_key is None else parse_key(witness_key))
