"""`moldau dump-log FILE...`: prints the contents of the files of a data directory, of Moldau or of Kafka.

Files are recognised by name: segments (.log), indexes, producer snapshots, checkpoints. Files are only read,
so a running broker's files may be dumped. The lines are those of `kafka-dump-log`; --json prints an object a
line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import teach

if TYPE_CHECKING:
    from moldau.tools.commands.dump.files import Decoder, Row

HELP = """Print segments, indexes, producer snapshots and checkpoints of a data directory.

Examples:

* moldau dump-log data/orders-0                        the headers of every batch, and the small files
* moldau dump-log data/orders-0/*.log --print-data-log --max-records 10
* moldau dump-log data/__consumer_offsets-3 --offsets-decoder
* moldau dump-log data/__transaction_state-7 --transaction-log-decoder
* moldau dump-log data/__share_group_state-4 --share-group-state-decoder
* moldau dump-log data/orders-0 --deep                 every record; the markers that end transactions

The exit code is 1 if something is damaged: a wrong crc, a torn end, an index entry that points nowhere.
"""


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("dump-log", help=teach(HELP))(dump_log)


def dump_log(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files, or a partition's folder.")],
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", "-p", help="Print the records with keys, values and headers.")
    ] = False,
    deep: Annotated[
        bool,
        typer.Option("--deep", "--deep-iteration", help="Print a line for each record, without its content."),
    ] = False,
    offsets_decoder: Annotated[
        bool, typer.Option("--offsets-decoder", help="Print the records as those of __consumer_offsets.")
    ] = False,
    transaction_log_decoder: Annotated[
        bool,
        typer.Option("--transaction-log-decoder", help="Print the records as those of __transaction_state."),
    ] = False,
    share_group_state_decoder: Annotated[
        bool,
        typer.Option("--share-group-state-decoder", help="Print the records as __share_group_state's."),
    ] = False,
    max_records: Annotated[
        int, typer.Option("--max-records", "-n", help="Stop after this many records.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line.")] = False,
) -> None:
    """Print the files of a data directory (see HELP)."""
    from moldau.tools.commands.dump.files import Content, dump_file

    decoder = _decoder(offsets_decoder, transaction_log_decoder, share_group_state_decoder)
    prints = print_data_log or decoder is not None
    content = Content(records=prints or deep, payload=prints, decoder=decoder)
    damaged = 0
    for path in _files(paths):
        if not as_json:
            print(f"Dumping {path}")
        seen = 0
        try:
            for row in dump_file(path, content):
                damaged += row.damaged
                seen += row.kind == "record"
                if max_records and seen > max_records:
                    break
                print(_json_line(path, row) if as_json else _text_line(row))
        except (FileNotFoundError, PermissionError, IsADirectoryError) as problem:
            raise CommandError(f"cannot read {path}: {problem.strerror}") from None
        if as_json:
            continue
        print()
    if damaged:
        raise CommandError(f"{damaged} damaged places were found (they are marked above)")


def _decoder(offsets: bool, transactions: bool, share_states: bool) -> Decoder | None:
    if offsets + transactions + share_states > 1:
        raise UsageError("each decoder reads another topic: choose one")
    from moldau.tools.commands.dump import coordinator_records as known

    if offsets:
        return known.decode_offsets_record
    if share_states:
        return known.decode_share_state_record
    return known.decode_transaction_record if transactions else None


def _files(paths: list[Path]) -> Iterator[Path]:
    from moldau.tools.commands.dump.files import is_known

    for path in paths:
        if path.is_dir():
            known = sorted(inner for inner in path.iterdir() if inner.is_file() and is_known(inner))
            if not known:
                raise CommandError(f"{path} holds no file of a log: name a partition's folder")
            yield from known
        elif not path.exists():
            raise CommandError(f"there is no {path}")
        elif not is_known(path):
            raise CommandError(
                f"{path.name} is not a file of a partition: known are .log, .index, .timeindex, .txnindex, "
                ".snapshot and the checkpoints"
            )
        else:
            yield path


def _text_line(row: Row) -> str:
    words = " ".join(f"{name}: {_text(value)}" for name, value in row.fields.items())
    return f"| {words}" if row.kind == "record" else words


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, default=_text)
    return str(value)


def _json_line(path: Path, row: Row) -> str:
    return json.dumps({"file": str(path), "kind": row.kind} | row.fields, ensure_ascii=False, default=_text)
