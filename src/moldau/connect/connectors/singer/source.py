"""A source that runs a Singer tap again and again: connector.class=singer, singer.executable=tap-github

The tap's last STATE is the offset: records and the state that follows them are committed in one
transaction. So what
a tap wrote after its last state is written again, and none of it was ever seen. A topic a stream.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from moldau.connect.batch import Batch
from moldau.connect.building import batch_of
from moldau.connect.connectors.singer.messages import NotSinger, State, StreamRecord, StreamSchema, message_of
from moldau.connect.connectors.singer.tap import Tap
from moldau.connect.errors import ConnectError
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType
from moldau.connect.source import Read, Source, SourceOffset, SourcePartition

_READING = "Reading"
_ROWS_MAX = 1000


def _check_json(text: Any) -> str | None:
    try:
        orjson.loads(text or "{}")
    except ValueError as problem:
        return f"is no JSON: {problem}"
    return None


class SingerSource(Source):
    """Any tap."""

    ends_transactions = True
    settings = (
        Setting(
            "singer.executable",
            SettingType.STRING,
            "The tap, with its arguments if it has some; --config, --state and --catalog are added.",
            REQUIRED,
            Importance.HIGH,
            _READING,
        ),
        Setting(
            "singer.config",
            SettingType.PASSWORD,
            "The tap's configuration: a JSON object.",
            None,
            Importance.HIGH,
            _READING,
            check=_check_json,
        ),
        Setting(
            "singer.catalog",
            SettingType.STRING,
            "The catalog as JSON: which streams. None: the tap's own choice.",
            None,
            Importance.MEDIUM,
            _READING,
            check=_check_json,
        ),
        Setting(
            "topic.prefix", SettingType.STRING, "Before a stream's name.", "", Importance.MEDIUM, _READING
        ),
        Setting(
            "singer.interval.ms",
            SettingType.LONG,
            "How long to wait between two runs.",
            60_000,
            Importance.MEDIUM,
            _READING,
        ),
    )

    def partitions(self) -> Sequence[SourcePartition]:
        """One: a tap has one state."""
        return [{"tap": shlex.split(self.config["singer.executable"])[0]}]

    def read(self, partition: SourcePartition, offset: SourceOffset | None) -> Iterator[Read | None]:
        """Run after run. ConnectError with the tap's last lines where it fails."""
        state = offset["state"] if offset else None
        while not self.context.stopping():
            for read in self._run(state):
                if read is not None and read.ends_transaction:
                    state = read.offset["state"]
                yield read
            again_at = time.monotonic() + self.config["singer.interval.ms"] / 1000
            yield None
            while time.monotonic() < again_at and not self.context.stopping():
                yield None

    def check_offsets(self, offsets: Mapping[str, Any]) -> None:
        """An offset is {"state": what the tap writes}."""
        if set(offsets) != {"state"}:
            raise ConnectError('an offset of this connector is {"state": {…}}')

    def _run(self, before: Any) -> Iterator[Read | None]:
        keys: dict[str, Sequence[str]] = {}
        held: list[StreamRecord] = []
        state = before
        with Tap(self._command(), self._files(before)) as tap:
            for line in tap.lines():
                message = None if line is None else self._message(line)
                if message is None:
                    if self.context.stopping():
                        return
                    if line is None:
                        yield None
                elif isinstance(message, StreamSchema):
                    keys[message.stream] = message.key_properties
                elif isinstance(message, StreamRecord):
                    held.append(message)
                    if len(held) >= _ROWS_MAX:
                        yield Read(self._batches(held, keys), {"state": state}, ends_transaction=False)
                        held = []
                else:
                    state = message.value
                    yield Read(self._batches(held, keys), {"state": state})
                    held = []
        if held or state is None:
            # A tap without a state reads everything each time; an empty one tells the two apart.
            yield Read(self._batches(held, keys), {"state": {} if state is None else state})

    def _message(self, line: bytes) -> StreamSchema | StreamRecord | State | None:
        try:
            return message_of(line)
        except NotSinger as problem:
            raise ConnectError(f"{self.config['singer.executable']} writes {problem}") from None

    def _batches(self, records: Sequence[StreamRecord], keys: Mapping[str, Sequence[str]]) -> list[Batch]:
        """By stream, in the order in which the streams began."""
        by_stream: dict[str, list[dict[str, Any]]] = {}
        for record in records:
            by_stream.setdefault(record.stream, []).append(record.record)
        return [
            batch_of(self.config["topic.prefix"] + stream, rows, keys=_keys(rows, keys.get(stream, ())))
            for stream, rows in by_stream.items()
        ]

    def _command(self) -> list[str]:
        return shlex.split(self.config["singer.executable"])

    def _files(self, state: Any) -> dict[str, bytes]:
        files = {"config": (self.config["singer.config"] or "{}").encode()}
        if self.config["singer.catalog"]:
            files["catalog"] = self.config["singer.catalog"].encode()
        if state:
            files["state"] = orjson.dumps(state)
        return files


def _keys(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[Any] | None:
    if not names:
        return None
    if len(names) == 1:
        return [row.get(names[0]) for row in rows]
    return [{name: row.get(name) for name in names} for row in rows]
