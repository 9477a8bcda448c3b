r"""`moldau consume TOPIC...`: prints records.

Without a group, partitions are assigned from the offsets of `-o`, and nothing is committed. With `--group`,
the group assigns partitions, and the offsets of what was printed are committed at the end. `--exit` (or an
end in `-o`) stops at the end of every partition; otherwise reading goes on.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.client.admin.topics import leaders
from moldau.common.core.unreadable import UNREADABLE, advice
from moldau.tools.commands.records.group_commits import GroupCommits
from moldau.tools.shared import completion
from moldau.tools.shared.admin import select_names, topic_names
from moldau.tools.shared.errors import CommandError, UsageError, explain_kafka_error, is_of_unused_group
from moldau.tools.shared.options import Connect, connected, teach
from moldau.tools.shared.schema_registry import RegistryOfRecords, RegistrySettings, registry_conf

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from moldau.tools.commands.records.render import Renderer
    from moldau.tools.shared.connection import Connection
    from moldau.tools.shared.offset_range import OffsetRange

BATCH_RECORDS = 1_000

HELP = r"""Print the records of one or several topics.

Examples:

* moldau consume orders -e                             all of it, then stop
* moldau consume orders -o end                         only new records
* moldau consume orders -o @1h -e                      the last hour
* moldau consume orders -p 0 -o -10 -e                 the last ten of partition 0
* moldau consume orders -g billing                     as a member of a group
* moldau consume orders -f '%p@%o %k=%v{json} %d{strftime[%F %T]} %h{%k:%v }\n'
* moldau consume orders --json -n 5                    five JSON objects
* moldau consume orders --schema-registry http://127.0.0.1:8081     Avro, JSON Schema, Protobuf as JSON

-f: %t topic, %k key, %v value, %p partition, %o offset, %d timestamp, %e leader epoch, %h{...} headers, %i
count, %T %K %V %H lengths and number; {hex}, {base64}, {json}, {quote}, {unpack[>I]}, numbers {big32},
{hex8}, and so on.

-o: start, end, 100, -5 (the last five), @MOMENT, FROM:TO (TO is not included), with MOMENT as
2026-02-14T09:30, milliseconds, or how long ago (90s, 1h30m).
"""


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("consume", help=teach(HELP))(consume)


@connected
def consume(
    connect: Connect,
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC", help="Topics to read.", autocompletion=completion.topics)
    ],
    offset: Annotated[
        str,
        typer.Option("--offset", "-o", metavar="WHERE", help="Where to begin (and to end), as said above."),
    ] = "start",
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition. May be repeated.")
    ] = None,
    count: Annotated[int, typer.Option("--num", "-n", help="Stop after this many records.")] = 0,
    follow: Annotated[
        bool, typer.Option("--follow/--exit", "-F/-e", help="Go on waiting for records, or stop at the end.")
    ] = True,
    form: Annotated[str, typer.Option("--format", "-f", help="How a record is printed.")] = r"%v\n",
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line.")] = False,
    group: Annotated[
        str,
        typer.Option(
            "--group",
            "-g",
            help="Join this group, and commit the offsets of what was printed.",
            autocompletion=completion.groups,
        ),
    ] = "",
    regex: Annotated[bool, typer.Option("--regex", "-r", help="The topics are regular expressions.")] = False,
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="Hide records of open and aborted transactions.")
    ] = False,
    idle: Annotated[
        float, typer.Option("--idle", metavar="SECONDS", help="Stop after this long without a record.")
    ] = 0,
    schema_registry: RegistryOfRecords = "",
    registry_settings: RegistrySettings = None,
    key_format: Annotated[
        str,
        typer.Option(
            "--key-format",
            help="With --schema-registry: auto (decoded where a schema is named), raw, avro, json-schema or "
            "protobuf.",
        ),
    ] = "auto",
    value_format: Annotated[str, typer.Option("--value-format", help="The same for values.")] = "auto",
    schema_ids: Annotated[
        bool,
        typer.Option("--print-schema-ids", help="Print the schema's id behind each decoded key and value."),
    ] = False,
) -> None:
    """Print the records of one or several topics (see HELP)."""
    from moldau.tools.commands.records.render import compile_renderer, render_json
    from moldau.tools.shared.offset_range import parse_offset_range

    renderer = render_json if as_json else compile_renderer(form)
    renderer = _with_registry(
        renderer, schema_registry, registry_settings, key_format, value_format, schema_ids, as_json
    )
    wanted = parse_offset_range(offset, time.time_ns() // 1_000_000)
    if group and (partitions or wanted.stop is not None or wanted.start.kind not in ("start", "end")):
        raise UsageError(
            "with --group the group decides where to read: leave out -p, and -o can only be start or end "
            "(for a group without offsets); reset its offsets with `moldau groups reset-offsets`"
        )
    connection = connect()
    settings: dict[str, Any] = {
        "isolation_level": "read_committed" if read_committed else "read_uncommitted",
        "auto_offset_reset": "latest" if wanted.start.kind == "end" else "earliest",
    }
    if group:
        # librdkafka's commit at close waits for as long as the coordinator refuses, without a word.
        settings |= {"group_id": group, "enable_auto_commit": False}
    consumer = connection.consumer(**settings)
    commits = GroupCommits(consumer, group, connection) if group else None
    try:
        existing = topic_names(connection, internal=True)
        names = select_names(topics, existing, what="topic", regex=regex, connection=connection)
        stop_at_end = not follow or wanted.stop is not None
        reader = _Reader(consumer, renderer, count, idle, stop_at_end, commits)
        if group:
            reader.subscribe(names)
        else:
            reader.assign(names, partitions, wanted, connection, read_committed=read_committed)
        try:
            reader.run()
        finally:
            if commits is not None:
                commits.finish()
    finally:
        if commits is None or not commits.refused:
            consumer.close()


def _with_registry(
    renderer: Renderer,
    url: str,
    settings: list[str] | None,
    key_format: str,
    value_format: str,
    schema_ids: bool,
    as_json: bool,
) -> Renderer:
    """Decode first, where a registry is named. UsageError."""
    if not url:
        if (key_format, value_format) != ("auto", "auto") or schema_ids or settings:
            raise UsageError("--key-format, --value-format, --print-schema-ids and -R need --schema-registry")
        return renderer
    from moldau.tools.commands.records.decoding import decoding, require_form

    require_form(key_format, "--key-format")
    require_form(value_format, "--value-format")
    return decoding(renderer, registry_conf(url, settings), key_format, value_format, schema_ids, as_json)


class _Reader:
    """Consumes and prints until the count, the end offsets or the timeout is reached."""

    def __init__(
        self,
        consumer: Consumer,
        renderer: Renderer,
        count: int,
        idle_seconds: float,
        stop_at_end: bool,
        commits: GroupCommits | None,
    ) -> None:
        self._consumer = consumer
        self._renderer = renderer
        self._count = count
        self._idle_seconds = idle_seconds
        self._stop_at_end = stop_at_end
        self._commits = commits
        self._grouped = False
        self._printed = 0
        self._stops: dict[tuple[str, int], int] = {}
        self._open: set[tuple[str, int]] = set()

    def assign(
        self,
        topics: list[str],
        only: list[int] | None,
        wanted: OffsetRange,
        connection: Connection,
        *,
        read_committed: bool,
    ) -> None:
        """Assign all (or the named) partitions of `topics` at their start offsets."""
        from confluent_kafka import TopicPartition

        from moldau.tools.shared.offset_range import Bound, resolve

        partitions = self._partitions(topics, only, connection)
        offsets = partial(resolve, connection.cluster(), partitions=partitions, read_committed=read_committed)
        starts = offsets(wanted.start)
        if self._stop_at_end:
            self._stops = offsets(wanted.stop or Bound("end"))
            lows = offsets(Bound("start"))
            starts = {each: max(start, lows[each]) for each, start in starts.items()}
        self._open = {each for each in partitions if not self._stops or starts[each] < self._stops[each]}
        self._consumer.assign([TopicPartition(*each, starts[each]) for each in sorted(self._open)])

    def _partitions(
        self, topics: list[str], only: list[int] | None, connection: Connection
    ) -> list[tuple[str, int]]:
        found = list(leaders(connection.cluster(), topics))
        if not only:
            return found
        chosen = [each for each in found if each[1] in only]
        for index in only:
            if all(each[1] != index for each in chosen):
                raise CommandError(
                    f"{topics[0]} has no partition {index}: see `moldau topics describe {topics[0]}`"
                )
        return chosen

    def subscribe(self, topics: list[str]) -> None:
        """Join the group; the partitions are known after the rebalance."""
        self._grouped = True

        def assigned(_: Consumer, partitions: list[Any]) -> None:
            self._open |= {(each.topic, each.partition) for each in partitions}
            if self._commits is not None:
                self._commits.assigned()

        def revoked(_: Consumer, partitions: list[Any]) -> None:
            if self._commits is not None:
                self._commits.revoked(partitions)
            self._open -= {(each.topic, each.partition) for each in partitions}

        self._consumer.subscribe(topics, on_assign=assigned, on_revoke=revoked)

    def run(self) -> None:
        """Print until done."""
        output = sys.stdout.buffer
        last_record_at = time.monotonic()
        while self._grouped or self._open or not self._stop_at_end:
            size = min(BATCH_RECORDS, self._count - self._printed) if self._count else BATCH_RECORDS
            messages = self._consumer.consume(size, timeout=0.1)
            if self._commits is not None:
                self._commits.tick()
            ended = False
            for message in messages:
                error = message.error()
                if error is None:
                    self._print(output, message)
                elif error.name() == "_PARTITION_EOF":
                    self._open.discard((message.topic(), message.partition()))
                    ended = not self._open
                elif self._grouped or not is_of_unused_group(error):
                    if error.retriable() and not error.fatal():
                        continue
                    raise CommandError(_what_ends_it(message, error))
            if messages:
                output.flush()
                last_record_at = time.monotonic()
            if self._count and self._printed >= self._count:
                return
            if self._stop_at_end and ended:
                return
            if self._idle_seconds and time.monotonic() - last_record_at > self._idle_seconds:
                return

    def _print(self, output: Any, message: Any) -> None:
        partition = (message.topic(), message.partition())
        stop = self._stops.get(partition)
        if stop is not None and message.offset() >= stop - 1:
            self._open.discard(partition)
            if message.offset() >= stop:
                return
        self._printed += 1
        output.write(self._renderer(message, self._printed))
        if self._commits is not None:
            self._commits.printed(message)


def _what_ends_it(message: Any, error: Any) -> str:
    """The message for an error that asking again does not cure."""
    if error.name() not in UNREADABLE:
        return explain_kafka_error(error)
    place = message.topic(), message.partition(), message.offset()
    return f"{explain_kafka_error(error)}; {advice(*place)}"
