"""FileSource: files into a topic: one that grows, or all that come into a folder; each record once.

    partition {"path": "/data/in", "part": 0, "of": 1}
    offset    {"files": {"a.csv": 120, "b.csv": 4096}, "schema": {...}}    how far each file is read

Files are read oldest first; a text file that grows is read on. One that is read to its end, and was not
touched for `finished.after.ms`, is finished: kept, moved or deleted, once its records are committed. What a
crash leaves in between is done at the next start, since the offset still has the file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from moldau.connect.building import batch_of
from moldau.connect.connectors.files.finishing import finish, put_back
from moldau.connect.connectors.files.folder import Folder, Found, check_pattern
from moldau.connect.connectors.files.readers import FORMATS, GROWING, Reader
from moldau.connect.converters.json.schema_json import schema_from_json, schema_to_json
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.schema import Schema
from moldau.connect.settings import Importance, Setting, SettingType
from moldau.connect.source import Read, Source, SourceContext, SourceOffset, SourcePartition

_KEPT_MAX = 10_000
_FINISH_EVERY_SECONDS = 1.0
_GROUP = "Files"


def _positive(value: int) -> str | None:
    return None if value > 0 else "Value must be at least 1"


class FileSource(Source):
    """See the module."""

    settings: ClassVar[Sequence[Setting]] = (
        Setting("path", SettingType.STRING, "A file, or a folder.", importance=Importance.HIGH, group=_GROUP),
        Setting("topic", SettingType.STRING, "Where to.", importance=Importance.HIGH, group=_GROUP),
        Setting(
            "format",
            SettingType.STRING,
            "What the files have; avro needs the package fastavro.",
            "lines",
            Importance.HIGH,
            _GROUP,
            choices=FORMATS,
        ),
        Setting(
            "pattern",
            SettingType.STRING,
            "A regular expression (RE2) that a file's whole name must match.",
            None,
            group=_GROUP,
            check=check_pattern,
        ),
        Setting("glob", SettingType.STRING, "The same as *.csv.", None, group=_GROUP),
        Setting(
            "subfolders",
            SettingType.BOOLEAN,
            "Whether folders in the folder are read, too.",
            False,
            group=_GROUP,
        ),
        Setting(
            "parts",
            SettingType.INT,
            "Into how many parts, by their names, files are dealt out for tasks; not to be changed later.",
            1,
            group=_GROUP,
            check=_positive,
        ),
        Setting(
            "schema",
            SettingType.STRING,
            "The schema of the records, as JsonConverter writes one; none: Parquet's own, inferred for CSV.",
            None,
            group=_GROUP,
        ),
        Setting(
            "schema.infer",
            SettingType.BOOLEAN,
            "json, avro: infer a schema from the first records and keep it.",
            False,
            group=_GROUP,
        ),
        Setting(
            "key.field",
            SettingType.STRING,
            "The field that is the record's key; none: no key.",
            None,
            group=_GROUP,
        ),
        Setting("csv.delimiter", SettingType.STRING, "Between fields.", ",", group=_GROUP),
        Setting(
            "batch.size", SettingType.INT, "Records read at a time.", 2000, group=_GROUP, check=_positive
        ),
        Setting(
            "finished",
            SettingType.STRING,
            "What becomes of a file whose records are committed.",
            "keep",
            group=_GROUP,
            choices=("keep", "move", "delete"),
        ),
        Setting("finished.path", SettingType.STRING, "The folder to move to.", None, group=_GROUP),
        Setting(
            "finished.after.ms",
            SettingType.LONG,
            "How long a file must not have been touched to be finished.",
            10_000,
            group=_GROUP,
        ),
    )

    def start(self, settings: Mapping[str, Any], context: SourceContext) -> None:
        """ConnectError: the schema is none."""
        super().start(settings, context)
        self._folder = Folder(settings["path"], settings["pattern"], settings["glob"], settings["subfolders"])
        self._format: str = settings["format"]
        self._given = _schema_of(settings["schema"])
        self._finish_at = 0.0
        self._ahead: dict[str, tuple[tuple[int, int], int]] = {}
        """Files whose time lies in the future: size and time, and since when they are seen so."""
        self._finished: dict[int, set[str]] = {}
        """By part: names of files that were moved or deleted; another file may come under one."""

    def partitions(self) -> Sequence[SourcePartition]:
        """The parts."""
        count = self.config["parts"]
        return [{"path": self.config["path"], "part": part, "of": count} for part in range(count)]

    def read(self, partition: SourcePartition, offset: SourceOffset | None) -> Iterator[Read | None]:
        """What comes, file after file. Retriable, ConnectError."""
        files: dict[str, int] = dict(offset["files"]) if offset else {}
        schema = self._given
        if schema is None and offset and offset.get("schema"):
            schema = schema_from_json(offset["schema"])
        reader = Reader(
            self._format,
            self.config["batch.size"],
            schema,
            self.config["schema.infer"],
            self.config["csv.delimiter"],
        )
        self._put_back(files)
        while not self.context.stopping():
            finished = self._finished.pop(partition["part"], set()) & files.keys()
            if finished:
                files = {name: at for name, at in files.items() if name not in finished}
                yield Read([], self._offset(files, reader))
            found = self._folder.files(partition["part"], partition["of"])
            has_read = False
            for each in found:
                for read in self._file(each, files, reader):
                    has_read = True
                    yield read
                if self.context.stopping():
                    return
            gone = files.keys() - {each.name for each in found}
            if gone:
                files = {name: at for name, at in files.items() if name not in gone}
                yield Read([], self._offset(files, reader))
            elif not has_read:
                yield Read([], self._offset(files, reader)) if self._may_finish(found, files) else None

    def _put_back(self, files: Mapping[str, int]) -> None:
        """What a crash left aside. Retriable."""
        path = Path(self.config["path"])
        folder = path if path.is_dir() else path.parent
        if self.config["finished"] == "keep" or not folder.is_dir():
            return
        try:
            for name in files:
                put_back(folder, name)
        except OSError as error:
            raise Retriable(f"{folder}: a finished file cannot be put back: {error.strerror}") from error

    def _file(self, found: Found, files: dict[str, int], reader: Reader) -> Iterator[Read]:
        """The rest of a file; `files` follows."""
        grows = self._format in GROWING
        position = files.get(found.name, 0)
        if grows and position >= found.size and (found.name in files or not found.size):
            if position > found.size:
                raise ConnectError(
                    f"{found.path} became shorter than what was read of it ({position} bytes): move it away, "
                    "or set the connector's offset"
                )
            return
        finished = self._is_quiet(found)
        if not grows and (not finished or position < 0):
            return
        try:
            for piece in reader.pieces(found.path, position, finished):
                files[found.name] = piece.position
                self._check_count(files)
                batches = []
                if len(piece.values):
                    batches = [
                        batch_of(self.config["topic"], piece.values, piece.schema, self.config["key.field"])
                    ]
                yield Read(batches, self._offset(files, reader))
            if not grows:
                files[found.name] = -1  # all of it
                yield Read([], self._offset(files, reader))
        except FileNotFoundError:
            return
        except OSError as error:
            raise Retriable(f"{found.path} cannot be read: {error.strerror}") from error

    def _may_finish(self, found: Sequence[Found], files: Mapping[str, int]) -> bool:
        """Whether there is something for `committed` to do; it is tried again from time to time."""
        if self.config["finished"] == "keep" or time.monotonic() < self._finish_at:
            return False
        if not any(self._is_finished(each, files) for each in found):
            return False
        self._finish_at = time.monotonic() + _FINISH_EVERY_SECONDS
        return True

    def _is_finished(self, found: Found, files: Mapping[str, int]) -> bool:
        position = files.get(found.name)
        whole = position == -1 or (self._format in GROWING and position == found.size)
        return position is not None and whole and self._is_quiet(found)

    def _check_count(self, files: Mapping[str, int]) -> None:
        if len(files) > _KEPT_MAX:
            raise ConnectError(
                f"{self.config['path']} has more than {_KEPT_MAX} files that were read: set finished=move or "
                "finished=delete, since an offset has to name them all"
            )

    def _is_quiet(self, found: Found) -> bool:
        """A time in the future (of another machine's clock, or before ours was set back) says nothing: then
        it counts how long the file has been seen as it is."""
        after_ns, quiet_ns = (
            int(self.config["finished.after.ms"]) * 1_000_000,
            time.time_ns() - found.modified_ns,
        )
        if quiet_ns >= 0:
            self._ahead.pop(found.name, None)
            return quiet_ns >= after_ns
        state, now_ns = (found.size, found.modified_ns), time.monotonic_ns()
        if self._ahead.get(found.name, (None, 0))[0] != state:
            if len(self._ahead) >= _KEPT_MAX:
                self._ahead.clear()
            self._ahead[found.name] = (state, now_ns)
        return now_ns - self._ahead[found.name][1] >= after_ns

    def _offset(self, files: Mapping[str, int], reader: Reader) -> SourceOffset:
        offset: dict[str, Any] = {"files": dict(files)}
        if self._given is None and reader.schema is not None and self._format in ("csv", "json", "avro"):
            offset["schema"] = schema_to_json(reader.schema)
        return offset

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """Move or delete what is finished. Retriable."""
        if self.config["finished"] == "keep":
            return
        files = offset["files"]
        for each in self._folder.files(partition["part"], partition["of"]):
            if self._is_finished(each, files):
                try:
                    if self._finish(each):
                        self._finished.setdefault(partition["part"], set()).add(each.name)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise Retriable(
                        f"{each.path} is finished and cannot be removed: {error.strerror}"
                    ) from error

    def _finish(self, found: Found) -> bool:
        """False: somebody writes to it still."""
        moves = self.config["finished"] == "move"
        return finish(
            found.path, found.size, Path(self.config["finished.path"]) / found.name if moves else None
        )

    def check(self, settings: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        """Contradictions."""
        problems: dict[str, list[str]] = {}
        if settings["finished"] == "move" and not settings["finished.path"]:
            problems["finished.path"] = ["finished=move needs finished.path"]
        if settings["pattern"] and settings["glob"]:
            problems["glob"] = ["give pattern or glob, not both"]
        if len(settings["csv.delimiter"]) != 1:
            problems["csv.delimiter"] = ["must be one character"]
        try:
            _schema_of(settings["schema"])
        except ConnectError as wrong:
            problems["schema"] = [str(wrong)]
        return problems

    def check_offsets(self, offsets: Mapping[str, Any]) -> None:
        """Positions are whole numbers, by file."""
        files = offsets.get("files")
        if not isinstance(files, dict) or not all(isinstance(each, int) for each in files.values()):
            raise ConnectError('an offset is {"files": {"name": position, …}}')


def _schema_of(text: str | None) -> Schema | None:
    if not text:
        return None
    try:
        return schema_from_json(json.loads(text))
    except ValueError as wrong:
        raise ConnectError(f"schema is no JSON: {wrong}") from wrong
