"""kafka-dump-log: prints files of a data directory, with the readers of `moldau dump-log`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.common.protocol.wire import MalformedMessage
from moldau.tools.kafka.lines.options import Given, Option, Parser, flag
from moldau.tools.kafka.problems import CommandLineError, ToolError

if TYPE_CHECKING:
    from moldau.common.protocol.declare import Message
    from moldau.common.records.record import Record
    from moldau.tools.commands.dump.files import Content, Decoder, Row

    Kinds = dict[int, tuple[type[Message], type[Message]]]

PARSER = Parser(
    "kafka-dump-log",
    "Prints segments, indexes, snapshots and checkpoints of a data directory.",
    [
        Option("files", "file1, file2, ...", "REQUIRED: the files, separated by commas."),
        flag("print-data-log", "Print the records with keys and values."),
        flag("deep-iteration", "Print a line for each record."),
        flag("index-sanity-check", "Only check indexes, and say whether they pass."),
        flag("verify-index-only", "Only check indexes, and say what is wrong."),
        Option("max-message-size", "size", "Kafka's; without effect.", kind=int, default=5_242_880),
        Option(
            "max-bytes", "size", "Stop after so many bytes of a segment.", kind=int, default=2_147_483_647
        ),
        flag("offsets-decoder", "Records as those of __consumer_offsets."),
        flag("transaction-log-decoder", "Records as those of __transaction_state."),
        flag("cluster-metadata-decoder", "Refused: no topic of Moldau has such records."),
        flag("remote-log-metadata-decoder", "Refused: no topic of Moldau has such records."),
        flag("share-group-state-decoder", "Records as those of __share_group_state."),
        flag("skip-record-metadata", "Only keys and values of records."),
        Option("value-decoder-class", "class", "Only the default, text, is known.", may_lack_value=True),
        Option("key-decoder-class", "class", "Only the default, text, is known.", may_lack_value=True),
    ],
)
_TEXT = ("org.apache.kafka.tools.api.StringDecoder", "kafka.serializer.StringDecoder")
_INDEXES = (".index", ".timeindex")
_DECODERS = ("offsets-decoder", "transaction-log-decoder", "share-group-state-decoder")
_OTHERS_DECODERS = ("cluster-metadata-decoder", "remote-log-metadata-decoder")


def main(words: Sequence[str]) -> int:
    """Print the files. Returns the exit code."""
    given = PARSER.parse(words)
    PARSER.require(given, "files")
    for name in ("value-decoder-class", "key-decoder-class"):
        if given.text(name) not in (None, "", *_TEXT):
            raise CommandLineError(f"{given.text(name)} is a class of Java's: only text is known here")
    for name in _OTHERS_DECODERS:
        if given.flag(name):
            raise CommandLineError(
                f"--{name}: no topic of Moldau has such records",
                f"There are {', '.join(f'--{each}' for each in _DECODERS)}.",
            )
    checks = given.flag("index-sanity-check") or given.flag("verify-index-only")
    damaged = 0
    for path in [Path(each.strip()) for each in (given.text("files") or "").split(",") if each.strip()]:
        print(f"Dumping {path}")
        damaged += _check(path, given) if checks and path.suffix in _INDEXES else _dump(path, given)
    return 1 if damaged else 0


def _content(given: Given) -> Content:
    from moldau.tools.commands.dump.files import Content
    from moldau.tools.kafka.formats import coordinator_formatters as known

    decoder = None
    if given.flag("offsets-decoder"):
        decoder = _decoder(known.OFFSETS | known.GROUPS)
    elif given.flag("transaction-log-decoder"):
        decoder = _decoder(known.TRANSACTIONS)
    elif given.flag("share-group-state-decoder"):
        decoder = _decoder(known.SHARE_STATES)
    prints = given.flag("print-data-log") or decoder is not None
    return Content(records=prints or given.flag("deep-iteration"), payload=prints, decoder=decoder)


def _decoder(kinds: Kinds) -> Decoder:
    """Decode records of a coordinator's topic by their type; others are shown as bytes."""
    from moldau.tools.kafka.formats.coordinator_formatters import plain

    def decode(record: Record) -> dict[str, Any]:
        number = int.from_bytes(record.key[:2], "big") if record.key and len(record.key) >= 2 else -1
        if record.key is None or number not in kinds:
            return {"key": record.key, "payload": record.value}
        key_kind, value_kind = kinds[number]
        try:
            key = plain(key_kind.decode(record.key, number, 2), number)
            payload = None
            if record.value is not None:
                version = int.from_bytes(record.value[:2], "big")
                data = _with_members(plain(value_kind.decode(record.value, version, 2), version))
                payload = {"version": str(version), "data": data}
        except (MalformedMessage, ValueError) as problem:
            return {"key": record.key, "payload": record.value, "damaged": str(problem)}
        return {"key": {"type": str(number), "data": key}, "payload": payload}

    return decode


def _with_members(data: dict[str, Any]) -> dict[str, Any]:
    """Show what consumers have sent as their subscription, and have got as their assignment."""
    if data.get("protocolType") != "consumer":
        return data
    from base64 import b64decode

    from moldau.common.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
    from moldau.common.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
    from moldau.tools.kafka.formats.coordinator_formatters import plain

    kinds: dict[str, type[Message]] = {
        "subscription": ConsumerProtocolSubscription,
        "assignment": ConsumerProtocolAssignment,
    }
    for member in data.get("members") or ():
        for name, kind in kinds.items():
            content = b64decode(member.get(name) or "")
            if len(content) >= 2:
                version = min(int.from_bytes(content[:2], "big"), kind.VERSIONS[1])
                member[name] = plain(kind.decode(content, version, 2), version)
    return data


def _dump(path: Path, given: Given) -> int:
    """Print one file; return how many damaged places it has."""
    from moldau.tools.commands.dump.files import dump_file, is_known

    if not is_known(path):
        print(f"Ignoring unknown file {path}", file=sys.stderr)
        return 0
    limit = given.number("max-bytes") or 0
    damaged = 0
    if not path.exists():
        raise ToolError(f"{path} cannot be read: there is no such file")
    try:
        for row in dump_file(path, _content(given)):
            if row.kind == "batch" and row.fields["position"] + row.fields["size"] > limit:
                break
            damaged += row.damaged
            print(_line(row, given))
    except OSError as problem:
        raise ToolError(f"{path} cannot be read: {problem.strerror}") from None
    return damaged


def _line(row: Row, given: Given) -> str:
    if row.kind == "segment":
        return f"Log starting offset: {row.fields['Log starting offset']}"
    if row.kind != "record":
        return " ".join(f"{name}: {_text(value)}" for name, value in row.fields.items())
    fields = dict(row.fields)
    decoded = any(given.flag(name) for name in _DECODERS)
    if given.flag("skip-record-metadata"):
        if not decoded and not given.flag("print-data-log"):
            return ""
        fields = {name: value for name, value in fields.items() if name in ("key", "payload")}
    if decoded and fields.get("payload", "") is None:
        fields["payload"] = "<DELETE>"
    elif fields.get("payload", "") is None:
        fields = {name: value for name, value in fields.items() if name not in ("key", "payload")}
    if fields.get("key", "") is None:
        del fields["key"]
    return "| " + " ".join(f"{name}: {_text(value)}" for name, value in fields.items())


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")  # as Java makes text of bytes
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_text)
    return str(value)


def _check(path: Path, given: Given) -> int:
    """Whether an index is sound: its entries rise. Return how many do not."""
    from moldau.tools.commands.dump.files import dump_file

    wrong = 0
    last: tuple[int, ...] = ()
    try:
        for row in dump_file(path, _content(given)):
            entry = tuple(int(value) for value in row.fields.values() if isinstance(value, int))
            wrong += bool(row.damaged or (last and entry <= last))
            last = entry
    except OSError as problem:
        raise ToolError(f"{path} cannot be read: {problem.strerror}") from None
    if path.suffix == ".index" and not last and not wrong:
        print(f"{path} is empty.")
    elif wrong:
        print(f"{path}: {wrong} entries are damaged or not in order")
    elif given.flag("index-sanity-check"):
        print(f"{path} passed sanity check.")
    return wrong
