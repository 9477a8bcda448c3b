r"""`moldau produce TOPIC [FILE...]`: sends records from files or standard input.

Records are read from the input by a `-f` template (record_reader.py), one a line by default, and passed to
librdkafka, whose queue bounds memory. Delivery failures are counted and the first one is shown; the exit code
is 0 only if every record was acknowledged.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from moldau.tools.shared import completion
from moldau.tools.shared.causes import UNEXPLAINED, why_not_written
from moldau.tools.shared.errors import CommandError, UsageError, explain_kafka_error
from moldau.tools.shared.options import Connect, connected, teach
from moldau.tools.shared.output import note
from moldau.tools.shared.schema_registry import RegistryOfRecords, RegistrySettings, registry_conf

if TYPE_CHECKING:
    from moldau.tools.commands.records.encoding import Encode
    from moldau.tools.commands.records.record_reader import InputRecord
    from moldau.tools.commands.records.render import Renderer
    from moldau.tools.shared.connection import Connection

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PROGRESS_EVERY_RECORDS = 2_000

HELP = r"""Send records: one a line of standard input, or of files.

Examples:

* echo hello | moldau produce greetings
* moldau produce orders orders.jsonl -z zstd
* moldau produce orders -K :                           lines such as key:value
* moldau produce orders -f '%k\t%v\t%h{%k=%v;}\n'      %H before %h says how many headers there are
* moldau produce orders -k customer-7 --tombstone      one record without a value
* moldau produce orders -H source=shop -p 3 < lines
* moldau produce orders orders.jsonl --transactional-id import-7     all of the file or nothing of it
* moldau produce orders --schema-registry http://127.0.0.1:8081 --value-schema-file order.avsc < orders.jsonl
* moldau consume a -e -f '%K{big32}%V{big32}%k%v' | moldau produce b -f '%K{big32}%V{big32}%k%v'

-f: %k key, %v value, %t topic, %p partition, %d timestamp, %h{...} headers; %K %V %T %H sizes that come
before what they measure, as digits or {big32}, {hex8}, {3} (three bytes); %v{hex}, %v{base64}, %v{json}.
"""


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("produce", help=teach(HELP))(produce)


@connected
def produce(
    connect: Connect,
    topic: Annotated[
        str,
        typer.Argument(
            help="The topic to send to (%t in the format takes precedence).", autocompletion=completion.topics
        ),
    ],
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Files to read; standard input without any."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", "-f", help="The format of a record in the input.")
    ] = r"%v\n",
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of records without one.")] = None,
    key_separator: Annotated[
        str, typer.Option("--key-separator", "-K", help="Each line is a key, this text, and a value.")
    ] = "",
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header for each record."),
    ] = None,
    tombstone: Annotated[
        bool, typer.Option("--tombstone", "-Z", help="Empty values are tombstones; no input with -k: one.")
    ] = False,
    null_marker: Annotated[
        str | None,
        typer.Option("--null", metavar="TEXT", help="Keys and values of exactly this text are null."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Send to this partition.")
    ] = None,
    acks: Annotated[
        str, typer.Option("--acks", "-a", help="Acknowledgements to wait for: all, 1 (the leader) or 0.")
    ] = "all",
    compression: Annotated[
        str, typer.Option("--compression", "-z", help=f"One of {', '.join(CODECS)}.")
    ] = "none",
    transactional_id: Annotated[
        str,
        typer.Option(
            "--transactional-id",
            help="Send the whole input as one transaction under this id (-X transaction.timeout.ms=... if it "
            "takes longer than a minute).",
        ),
    ] = "",
    output_format: Annotated[
        str,
        typer.Option(
            "--output-format", help="Print each acknowledged record in this format (as consume -f)."
        ),
    ] = "",
    schema_registry: RegistryOfRecords = "",
    registry_settings: RegistrySettings = None,
    value_format: Annotated[
        str | None,
        typer.Option(
            "--value-format", help="The language of the value's schema: avro, json-schema, protobuf."
        ),
    ] = None,
    value_schema: Annotated[
        str | None,
        typer.Option(
            "--value-schema",
            metavar="TEXT",
            help="The value's schema; without one, the newest of the topic's subject.",
        ),
    ] = None,
    value_schema_file: Annotated[
        Path | None, typer.Option("--value-schema-file", metavar="FILE", help="The value's schema as a file.")
    ] = None,
    value_schema_id: Annotated[
        int | None, typer.Option("--value-schema-id", metavar="ID", help="The id of the value's schema.")
    ] = None,
    value_reference: Annotated[
        list[str] | None,
        typer.Option(
            "--value-reference",
            metavar="NAME=SUBJECT:VERSION",
            help="What a name in the value's schema refers to. May be repeated.",
        ),
    ] = None,
    message: Annotated[
        str,
        typer.Option("--message", metavar="NAME", help="Protobuf: the message; or else the file's first."),
    ] = "",
    key_format: Annotated[
        str | None,
        typer.Option("--key-format", help="As --value-format, for keys; they are raw without any."),
    ] = None,
    key_schema: Annotated[
        str | None, typer.Option("--key-schema", metavar="TEXT", help="As --value-schema.")
    ] = None,
    key_schema_file: Annotated[
        Path | None, typer.Option("--key-schema-file", metavar="FILE", help="As --value-schema-file.")
    ] = None,
    key_schema_id: Annotated[
        int | None, typer.Option("--key-schema-id", metavar="ID", help="As --value-schema-id.")
    ] = None,
    subject_strategy: Annotated[
        str,
        typer.Option("--subject-strategy", help="How subjects are named: topic, record or topic-record."),
    ] = "topic",
    register_schemas: Annotated[
        bool, typer.Option("--register/--no-register", help="Register a schema that is not yet registered.")
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
) -> None:
    """Send records (see HELP)."""
    from moldau.tools.commands.records.encoding import Said, encoders
    from moldau.tools.commands.records.render import compile_renderer
    from moldau.tools.shared.options import parse_assignments
    from moldau.tools.shared.progress import Progress

    if compression not in CODECS:
        raise UsageError(f"-z {compression!r} is not a codec: use one of {', '.join(CODECS)}")
    if acks not in ("all", "-1", "0", "1"):
        raise UsageError(f"--acks {acks!r} is not valid: use all, 1 or 0")
    if transactional_id and acks not in ("all", "-1"):
        raise UsageError("a transaction needs --acks all: leave out --acks")
    if key_separator:
        if form != r"%v\n":
            raise UsageError("-K and -f cannot be given together: write the separator into the format")
        form = "%k" + key_separator.replace("%", "%%") + r"%v\n"
    key_said = Said(key_format, key_schema, key_schema_file, key_schema_id)
    value_said = Said(value_format, value_schema, value_schema_file, value_schema_id)
    encode_key, encode_value = None, None
    if schema_registry:
        conf = registry_conf(schema_registry, registry_settings)
        encode_key, encode_value = encoders(
            conf, topic, key_said, value_said, value_reference, message, subject_strategy, register_schemas
        )
    elif key_said.anything or value_said.anything or registry_settings:
        raise UsageError("options of schemas need --schema-registry")
    connection = connect()
    producer = connection.producer(
        acks=acks,
        compression_type=compression,
        linger_ms=5,
        # As the Java client: the same key goes to the same partition whoever sends it.
        partitioner="murmur2_random",
        topic_metadata_propagation_max_ms=3_000,
        message_timeout_ms=int(connect.timeout_seconds * 1_000),
        **({"transactional_id": transactional_id} if transactional_id else {}),
    )
    sender = _Sender(
        producer,
        topic,
        None if key is None else key.encode(),
        [(name, value.encode()) for name, value in parse_assignments(headers, "-H").items()],
        partition,
        tombstone,
        None if null_marker is None else null_marker.encode(),
        compile_renderer(output_format) if output_format else None,
        encode_key,
        encode_value,
    )
    paths = files or []
    shown = None if quiet else Progress("sent", sum(path.stat().st_size for path in paths if path.is_file()))
    started_at = time.monotonic()
    with (
        _transaction(producer, connect.timeout_seconds) if transactional_id else nullcontext(),
        shown or nullcontext(),
    ):
        for record, consumed_bytes in _input(paths, form, lone_tombstone=tombstone and key is not None):
            sender.send(record)
            if shown is not None and sender.sent % PROGRESS_EVERY_RECORDS == 0:
                shown.show(sender.sent, consumed_bytes)
        sender.finish(connect.timeout_seconds)
        _require_all(sender, connection)
    _summarise(sender, time.monotonic() - started_at, quiet)


@contextmanager
def _transaction(producer: Any, timeout_seconds: float) -> Iterator[None]:
    """Commit what is sent inside, or abort on any error (and on Ctrl-C)."""
    producer.init_transactions(timeout_seconds)
    producer.begin_transaction()
    try:
        yield
        producer.commit_transaction(timeout_seconds)
    except BaseException:
        try:
            producer.abort_transaction(timeout_seconds)
        except Exception:
            # The broker aborts it after its timeout; the first error is the one to raise.
            note(
                "moldau: the transaction is not aborted yet: the broker does it after transaction.timeout.ms"
            )
        else:
            note("moldau: the transaction is aborted: read_committed consumers skip its records")
        raise


def _input(paths: list[Path], form: str, *, lone_tombstone: bool) -> Iterator[tuple[InputRecord, int]]:
    """Yield the records of all files, each with the number of input bytes read so far."""
    from moldau.tools.commands.records.record_reader import ByteStream, InputRecord, read_records

    if not paths:
        if sys.stdin.isatty():
            if lone_tombstone:
                yield InputRecord(), 0
                return
            note("type a record a line; Ctrl-D ends")
        empty = True
        stream = ByteStream(sys.stdin.buffer)
        for record in read_records(stream, form):
            empty = False
            yield record, stream.consumed_bytes
        if empty and lone_tombstone:
            yield InputRecord(), 0
        return
    before = 0
    for path in paths:
        with _open(path) as source:
            stream = ByteStream(source)
            for record in read_records(stream, form):
                yield record, before + stream.consumed_bytes
            before += stream.consumed_bytes


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as problem:
        raise CommandError(f"cannot read {path}: {problem.strerror}") from None


class _Sender:
    """Completes records, queues them in librdkafka, and counts deliveries."""

    def __init__(
        self,
        producer: Any,
        topic: str,
        key: bytes | None,
        headers: list[tuple[str, bytes]],
        partition: int | None,
        tombstone: bool,
        null_marker: bytes | None,
        renderer: Renderer | None,
        encode_key: Encode | None = None,
        encode_value: Encode | None = None,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._key = key
        self._headers = headers
        self._partition = partition
        self._tombstone = tombstone
        self._null_marker = null_marker
        self._renderer = renderer
        self._encode_key = encode_key
        self._encode_value = encode_value
        self.sent = 0
        self.sent_bytes = 0
        self.acknowledged = 0
        self.failed = 0
        self.first_failure = ""
        self.gave_up_on: tuple[str, int] | None = None
        """The partition where librdkafka gave up, if it does not say why."""

    def send(self, record: InputRecord) -> None:
        """Queue one record, waiting while the queue is full."""
        key = self._key if record.key is None else self._without_marker(record.key)
        value = None if record.value is None else self._without_marker(record.value)
        if self._tombstone and not value:
            value = None
        if key is not None and self._encode_key is not None:
            key = self._encode_key(key)
        if value is not None and self._encode_value is not None:
            value = self._encode_value(value)
        more: dict[str, Any] = {}
        partition = self._partition if record.partition is None else record.partition
        if partition is not None:
            more["partition"] = partition
        if record.timestamp_ms is not None:
            more["timestamp"] = record.timestamp_ms
        headers = [*self._headers, *record.headers]
        if headers:
            more["headers"] = headers
        self.sent += 1
        self.sent_bytes += len(key or b"") + len(value or b"")
        while True:
            try:
                self._producer.produce(
                    record.topic or self._topic, value=value, key=key, on_delivery=self._delivered, **more
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)

    def finish(self, timeout_seconds: float) -> None:
        """Wait for the delivery of everything that is queued."""
        while self._producer.flush(timeout_seconds) and self.acknowledged + self.failed < self.sent:
            pass

    def _without_marker(self, data: bytes) -> bytes | None:
        return None if data == self._null_marker else data

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed += 1
            if not self.first_failure:
                self.first_failure = explain_kafka_error(error)
                if error.name() in UNEXPLAINED:
                    self.gave_up_on = message.topic(), message.partition()
            return
        self.acknowledged += 1
        if self._renderer is not None:
            sys.stdout.buffer.write(self._renderer(message, self.acknowledged))


def _require_all(sender: _Sender, connection: Connection) -> None:
    sys.stdout.flush()
    if sender.failed:
        cause = why_not_written(connection, *sender.gave_up_on) if sender.gave_up_on else ""
        raise CommandError(
            f"{sender.failed:,} of {sender.sent:,} records were not accepted: {sender.first_failure}"
            f"{f': {cause}' if cause else ''}"
        )


def _summarise(sender: _Sender, seconds: float, quiet: bool) -> None:
    if not quiet:
        rate = f", {sender.sent / seconds:,.0f} records/s" if sender.sent >= 1_000 else ""
        records = "1 record" if sender.sent == 1 else f"{sender.sent:,} records"
        note(f"sent {records} ({sender.sent_bytes / 1e6:,.1f} MB) in {seconds:.2f} s{rate}")
