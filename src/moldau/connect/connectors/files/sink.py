"""FileSink: topics into a folder of Parquet, CSV or JSON files, each record once.

Records are appended to files that nobody sees; when one is full (rows, bytes) or old enough, all of its topic
partition are closed and put in place together (manifest.py). What is not in place yet is read again after a
stop or a crash: so nothing has to be cut into small files because a worker commits or restarts. A full disk
drops what is open, and is written again from what is in place.
"""

from __future__ import annotations

import errno
import logging
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from moldau.connect.batch import Batch, TopicPartition
from moldau.connect.building import is_null
from moldau.connect.connectors.files.formats import FORMATS, OpenFile, with_schema
from moldau.connect.connectors.files.layout import Layout, file_name
from moldau.connect.connectors.files.manifest import INTERNAL, Manifest
from moldau.connect.connectors.files.merging import Merging
from moldau.connect.errors import BadRecord, ConnectError, Retriable
from moldau.connect.settings import Importance, Setting, SettingType
from moldau.connect.sink import Sink, SinkContext

log = logging.getLogger("moldau.connect")
_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_GROUP = "Files"
_ENDINGS = {"parquet": "parquet", "csv": "csv", "json": "json"}


def _files(value: int) -> str | None:
    return None if value == 0 or value >= 2 else "Value must be 0, or at least 2"


def _positive(value: int) -> str | None:
    return None if value > 0 else "Value must be at least 1"


class FileSink(Sink):
    """See the module."""

    keeps_open: ClassVar[bool] = True
    settings: ClassVar[Sequence[Setting]] = (
        Setting("path", SettingType.STRING, "The folder.", importance=Importance.HIGH, group=_GROUP),
        Setting(
            "format",
            SettingType.STRING,
            "Of the files.",
            "parquet",
            Importance.HIGH,
            _GROUP,
            choices=FORMATS,
        ),
        Setting(
            "flush.size", SettingType.INT, "A file has so many records at most.", 100_000, group=_GROUP,
            check=_positive,
        ),
        Setting(
            "rotate.bytes", SettingType.LONG, "And about so many bytes.", 128 * 1024 * 1024, group=_GROUP,
            check=_positive,
        ),
        Setting(
            "rotate.interval.ms",
            SettingType.LONG,
            "And is put in place after so long at the latest.",
            600_000,
            group=_GROUP,
            check=_positive,
        ),
        Setting(
            "merge.min.files",
            SettingType.INT,
            "So many small files of a topic partition in a folder become one; 0: never. Not for programs "
            "that remember which files of the folder they have read.",
            0,
            group=_GROUP,
            check=_files,
        ),
        Setting(
            "partitioner",
            SettingType.STRING,
            "Which folders there are: by Kafka's partition, by time, by fields of the value.",
            "default",
            group=_GROUP,
            choices=("default", "time", "field"),
        ),
        Setting(
            "path.format",
            SettingType.STRING,
            "With partitioner=time.",
            "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
            group=_GROUP,
        ),
        Setting("timezone", SettingType.STRING, "With partitioner=time.", "UTC", group=_GROUP),
        Setting(
            "partition.field.name", SettingType.LIST, "With partitioner=field: the fields.", [], group=_GROUP
        ),
        Setting(
            "parquet.codec",
            SettingType.STRING,
            "How Parquet is compressed.",
            "snappy",
            group=_GROUP,
            choices=("none", "snappy", "gzip", "zstd", "lz4"),
        ),
        Setting(
            "behavior.on.null.values",
            SettingType.STRING,
            "What becomes of tombstones.",
            "ignore",
            group=_GROUP,
            choices=("ignore", "fail"),
        ),
    )  # fmt: skip

    def start(self, settings: Mapping[str, Any], context: SinkContext) -> None:
        """ConnectError: the folder cannot be made."""
        super().start(settings, context)
        self._folder = Path(settings["path"])
        self._layout = Layout(settings)
        self._places: dict[TopicPartition, _Place] = {}
        self._broken: OSError | None = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _failed(self._folder, error) from error

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """What the manifests say. What is open is dropped: it will be read again."""
        self._broken = None
        found = {}
        for each in partitions:
            place = self._place(each)
            place.discard()
            if place.manifest.next is not None:
                found[each] = place.manifest.next
        return found

    def set_positions(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Follow an administrator; files that are in place stay."""
        for each, offset in positions.items():
            place = self._place(each)
            place.discard()
            place.manifest.commit([], offset)

    def _place(self, place: TopicPartition) -> _Place:
        found = self._places.get(place)
        if found is None:
            try:
                manifest = Manifest(self._folder, place)
                found = self._places[place] = _Place(place, manifest, self.config, self._folder)
            except OSError as error:
                raise _failed(self._folder, error) from error
        return found

    def closed(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop what is open; who has the partition next reads it again."""
        for each in partitions:
            place = self._places.pop(each, None)
            if place is not None:
                place.discard()

    def write(self, batch: Batch, number: int) -> None:
        """Append to open files. BadRecord, ConnectError."""
        assert batch.origin is not None
        if self._broken is not None:
            return  # until `flush` has said so, and all is read again
        if not _NAME.fullmatch(batch.topic) or batch.topic in (".", "..", INTERNAL):
            raise ConnectError(f"{batch.topic!r} cannot be the name of a folder")
        place = self._place(batch.origin)
        nulls = is_null(batch.value.values)
        if any(nulls):
            if self.config["behavior.on.null.values"] == "fail":
                raise BadRecord("a tombstone has no place in a file", nulls.index(True))
            batch = self._without(batch, nulls, place)
            if not len(batch):
                return
        try:
            place.begins(number)
            place.write(batch, self._layout.folders(batch), number)
            if place.is_full():
                place.commit()
        except OSError as error:
            if not _passes(error):
                raise _failed(self._folder, error) from error
            place.discard()
            self._broken = error
            log.warning("%s: %s; what is open is written again", self._folder, error.strerror)

    def _without(self, batch: Batch, nulls: Sequence[bool], place: _Place) -> Batch:
        assert batch.offsets is not None
        place.saw(batch.offsets[-1].as_py())
        return batch.take([row for row, is_nothing in enumerate(nulls) if not is_nothing])

    def flush(self) -> None:
        """Put in place what is old enough. Retriable: the disk is full."""
        if self._broken is not None:
            broken, self._broken = self._broken, None
            raise _failed(self._folder, broken) from broken
        try:
            for each in self._places.values():
                if each.manifest.is_incomplete:
                    each.manifest.complete()
                if each.is_old():
                    each.commit()
                if not each.manifest.is_incomplete:
                    each.merging.step()
        except OSError as error:
            raise _failed(self._folder, error) from error

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Contradictions."""
        problems: dict[str, list[str]] = {}
        if settings["partitioner"] == "field" and not settings["partition.field.name"]:
            problems["partition.field.name"] = ["partitioner=field needs partition.field.name"]
        try:
            Layout(settings)
        except (KeyError, ValueError) as wrong:
            problems["timezone"] = [f"there is no such time zone: {wrong}"]
        return problems

    def stop(self) -> None:
        """Drop what is open."""
        for each in getattr(self, "_places", {}).values():
            each.discard()


class _Place:
    """A topic partition's open files."""

    def __init__(
        self, place: TopicPartition, manifest: Manifest, settings: Mapping[str, Any], folder: Path
    ) -> None:
        self.manifest = manifest
        self.merging = Merging(folder, place, manifest, settings)
        self._place = place
        self._settings = settings
        self._folder = folder
        self._open: dict[str, tuple[OpenFile, int]] = {}
        """By folder: the file and its first offset."""
        self._count = 0
        self._began: float | None = None
        self._next: int | None = None

    def saw(self, offset: int) -> None:
        """This offset needs no place in a file."""
        self._next = offset + 1
        if self._began is None:
            self._began = time.monotonic()

    def begins(self, offset: int) -> None:
        """Note where the first file begins: the group's offset will be behind it before it is in place."""
        if self.manifest.next is None:
            self.manifest.commit([], offset)

    def write(self, batch: Batch, folders: Sequence[str], number: int) -> None:
        assert batch.offsets is not None
        column = batch.value
        if self._settings["format"] != "json":
            column = with_schema(column)
        if any(each.schema != column.schema for each, _ in self._open.values()):
            self.commit()
        rows: dict[str, list[int]] = {}
        for row, folder in enumerate(folders):
            rows.setdefault(folder, []).append(row)
        offsets = batch.offsets.to_pylist()
        for folder, chosen in rows.items():
            name = f"{batch.topic}/{folder}"
            if name not in self._open:
                self._count += 1
                made = OpenFile(
                    self.manifest.staged(self._count),
                    self._settings["format"],
                    column.schema,
                    self._settings["parquet.codec"],
                )
                self._open[name] = (made, offsets[chosen[0]])
            part = column if len(chosen) == len(column) else column.take(chosen)
            self._open[name][0].write(part)
        self.saw(offsets[-1])

    def is_full(self) -> bool:
        return any(
            file.rows >= self._settings["flush.size"] or file.size >= self._settings["rotate.bytes"]
            for file, _ in self._open.values()
        )

    def is_old(self) -> bool:
        return (
            self._began is not None
            and (time.monotonic() - self._began) * 1000 >= self._settings["rotate.interval.ms"]
        )

    def commit(self) -> None:
        """Close all, and put them in place together. OSError: nothing of them is."""
        opened, self._open = self._open, {}
        self._began = None
        ending = _ENDINGS[self._settings["format"]]
        files = []
        for name, (file, first) in opened.items():
            file.close()
            topic = name.partition("/")[0]
            final = self._folder / name / file_name(topic, self._place.partition, first, ending)
            files.append((file.path, final))
        self.manifest.commit(files, self._next if self._next is not None else self.manifest.next)
        for name in opened:
            self.merging.touched(name)

    def discard(self) -> None:
        """Forget what is open. What counts stays, also where it is not in its place yet."""
        for file, _ in self._open.values():
            file.discard()
        self._open = {}
        self._began = self._next = None
        try:
            self.manifest.sweep()
        except OSError as error:
            log.warning("%s: files in the making stay: %s", self._folder, error.strerror)


def _passes(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE)


def _failed(folder: Path, error: OSError) -> ConnectError:
    sentence = f"{folder} cannot be written: {error.strerror or error}"
    return Retriable(sentence) if _passes(error) else ConnectError(sentence)
