"""FileStreamSource: the lines of a file, one record each, as Kafka's FileStreamSourceConnector has them.

    partition {"filename": "/var/log/syslog"}     offset {"position": 1234}   (bytes)

A line is a record once it ends. A file that is not there yet is waited for; one that became shorter is read
from its beginning.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, ClassVar

from moldau.connect.building import batch_of
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.schema import Schema, Type
from moldau.connect.settings import Importance, Setting, SettingType
from moldau.connect.source import Read, Source, SourceOffset, SourcePartition

FILENAME, POSITION = "filename", "position"
_CHUNK_BYTES = 1 << 20
_LINE_BYTES_MAX = 1 << 30
_STRING = Schema(Type.STRING)


class FileStreamSource(Source):
    """See the module. Standard input (no `file`) is Kafka's only: a worker has none."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting("file", SettingType.STRING, "Source filename.", importance=Importance.HIGH),
        Setting("topic", SettingType.STRING, "The topic to publish data to", importance=Importance.HIGH),
        Setting(
            "batch.size",
            SettingType.INT,
            "The maximum number of records the source task can read from the file each time it is polled",
            2000,
            Importance.LOW,
            check=lambda count: None if count > 0 else "Value must be at least 1",
        ),
    )

    def partitions(self) -> Sequence[SourcePartition]:
        """The file."""
        return [{FILENAME: self.config["file"]}]

    def read(self, partition: SourcePartition, offset: SourceOffset | None) -> Iterator[Read | None]:
        """Lines behind the position."""
        path = partition[FILENAME]
        position = int(offset[POSITION]) if offset else 0
        while not self.context.stopping():
            try:
                file = open(path, "rb")  # noqa: SIM115 (closed below)
            except FileNotFoundError:
                yield None
                continue
            except OSError as error:
                raise Retriable(f"{path} cannot be read: {error.strerror}") from error
            with file:
                if os.fstat(file.fileno()).st_size < position:
                    position = 0
                file.seek(position)
                yield from self._lines(file, path, position)
            return  # the file was replaced or cut: the worker asks again, with the last offset

    def _lines(self, file: BinaryIO, path: str, position: int) -> Iterator[Read | None]:
        rest = b""
        while not self.context.stopping():
            chunk = file.read(_CHUNK_BYTES)
            if not chunk:
                if _was_replaced(file, path, position + len(rest)):
                    return
                yield None
                continue
            lines, rest, taken = split_lines(rest + chunk)
            if len(rest) > _LINE_BYTES_MAX:
                raise ConnectError(f"{path} has a line of more than {_LINE_BYTES_MAX} bytes at {position}")
            for first in range(0, len(lines), self.config["batch.size"]):
                part = lines[first : first + self.config["batch.size"]]
                position += sum(taken[first : first + len(part)])
                now_ms = time.time_ns() // 1_000_000
                texts = [each.decode("utf-8", "replace") for each in part]
                batch = batch_of(self.config["topic"], texts, _STRING, timestamps_ms=[now_ms] * len(texts))
                yield Read([batch], {POSITION: position})

    def check_offsets(self, offsets: Mapping[str, Any]) -> None:
        """A position is a whole number that is not negative."""
        position = offsets.get(POSITION)
        if isinstance(position, bool) or not isinstance(position, int) or position < 0:
            raise ConnectError(f'an offset is {{"{POSITION}": bytes}}, not {dict(offsets)}')


def split_lines(data: bytes) -> tuple[list[bytes], bytes, list[int]]:
    """The lines (ended by \\n, \\r\\n or \\r), what is left, and how many bytes each line took."""
    if b"\r" not in data:
        *lines, rest = data.split(b"\n")
        return lines, rest, [len(each) + 1 for each in lines]
    pieces = data.splitlines(keepends=True)  # of bytes: \n, \r and \r\n only
    rest = b""
    if pieces and not pieces[-1].endswith(b"\n"):
        rest = pieces.pop()  # what ends with \r may go on with \n
    lines = [each[:-2] if each.endswith(b"\r\n") else each[:-1] for each in pieces]
    return lines, rest, [len(each) for each in pieces]


def _was_replaced(file: BinaryIO, path: str, reached: int) -> bool:
    """Whether another file has this name now, or it became shorter."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    own = os.fstat(file.fileno())
    return (there.st_dev, there.st_ino) != (own.st_dev, own.st_ino) or own.st_size < reached
