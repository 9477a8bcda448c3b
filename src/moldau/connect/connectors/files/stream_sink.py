"""FileStreamSink: each record's value as a line at the end of a file, as Kafka's FileStreamSinkConnector.

Unlike Kafka's, each line comes once: beside the file, `.NAME.positions` says up to which offset and which
byte it is written; what lies behind is cut off at a start, and read again. Somebody else's lines at the end
would go with it, so a file belongs to one connector and one task (a lock sees to that).
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from moldau.connect.batch import Batch, TopicPartition
from moldau.connect.connectors.files.durable import replace_durably
from moldau.connect.converters.primitive import StringConverter
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.settings import Importance, Setting, SettingType
from moldau.connect.sink import Sink, SinkContext

log = logging.getLogger("moldau.connect")


class FileStreamSink(Sink):
    """See the module."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting(
            "file",
            SettingType.STRING,
            "Destination filename. If not specified, the worker's log will be used",
            None,
            Importance.HIGH,
        ),
    )

    def start(self, settings: Mapping[str, Any], context: SinkContext) -> None:
        """Open the file, and cut off what is not known to be whole. ConnectError, Retriable."""
        super().start(settings, context)
        self._texts = StringConverter()
        self._texts.configure({}, False)
        self._next: dict[TopicPartition, int] = {}
        self._file: int | None = None
        name = settings["file"]
        if not name:
            return
        self._path = Path(name)
        self._beside = self._path.with_name(f".{self._path.name}.positions")
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Retriable(f"{name} is written by another task: tasks.max has to be 1") from None
        except OSError as error:
            raise ConnectError(f"{name} cannot be written: {error.strerror}") from error
        self._recover()

    def _recover(self) -> None:
        assert self._file is not None
        self._size = os.fstat(self._file).st_size
        try:
            noted = json.loads(self._beside.read_text())
        except FileNotFoundError:
            self.flush()
            return
        except (ValueError, OSError) as error:
            raise ConnectError(
                f"{self._beside} cannot be read ({error}): remove it to go on at the end of the file"
            ) from error
        if noted["size"] > self._size:
            raise ConnectError(
                f"{self._path} is shorter than {self._beside} says: remove that to go on at the file's end"
            )
        self._next = {TopicPartition(topic, number): offset for topic, number, offset in noted["next"]}
        if noted["size"] < self._size:
            log.info("%s: %d bytes are cut off and written again", self._path, self._size - noted["size"])
            os.ftruncate(self._file, noted["size"])
            self._size = noted["size"]

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """What the positions beside the file say; None without a file."""
        if self._file is None:
            return None
        return {each: self._next[each] for each in partitions if each in self._next}

    def set_positions(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Follow an administrator."""
        for each, offset in positions.items():
            if offset is None:
                self._next.pop(each, None)
            else:
                self._next[each] = offset
        self.flush()

    def write(self, batch: Batch, number: int) -> None:
        """Append lines; `flush` makes them count. Retriable: nothing of the batch is there."""
        payloads, refused = self._texts.to_payloads(batch.topic, batch.value)
        for row, reason in refused:
            self.context.bad_record(batch, row, ConnectError(reason))
        bad = {each.row for each in refused}
        values = [
            b"null" if value is None else value
            for row, value in enumerate(payloads.to_pylist())
            if row not in bad
        ]
        data = b"".join(value + b"\n" for value in values)
        if self._file is None:
            log.info("%s", data.decode("utf-8", "replace").rstrip("\n"))
            return
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(self._file, data[written:], self._size + written)
        except OSError as error:
            os.ftruncate(self._file, self._size)
            raise _failed(self._path, error) from error
        self._size += len(data)
        assert batch.origin is not None
        assert batch.offsets is not None
        self._next[batch.origin] = batch.offsets[-1].as_py() + 1

    def flush(self) -> None:
        """File first, then the positions."""
        if self._file is None:
            return
        try:
            os.fdatasync(self._file)
            noted = [[*each, offset] for each, offset in self._next.items()]
            replace_durably(self._beside, json.dumps({"size": self._size, "next": noted}).encode())
        except OSError as error:
            if self._beside.exists():
                self._recover()  # back to what is lasting, as the worker goes back to it
            raise _failed(self._path, error) from error

    def closed(self, partitions: Sequence[TopicPartition]) -> None:
        """Others may have them; when they come back, the positions tell."""

    def stop(self) -> None:
        """Close the file, and so give the lock back."""
        if getattr(self, "_file", None) is not None:
            os.close(self._file)  # type: ignore[arg-type]
            self._file = None


def _failed(path: Path, error: OSError) -> ConnectError:
    sentence = f"{path} cannot be written: {error.strerror}"
    passing = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EINTR)
    return Retriable(sentence) if error.errno in passing else ConnectError(sentence)
