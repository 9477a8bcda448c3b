"""Topics as folders of Arrow files, for tests without a broker: what the format "moldau" is for a cluster.

    topics/flights/00000000.arrow  00000001.arrow ...   each what was sent at once: ARROW_COLUMNS

A stream's offset is the number of files that it has read. A file is complete when it has its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_moldau.data_source import columns_of
from pyspark_moldau.schema_options import RecordFormats, parse_formats
from pyspark_moldau.tasks import decoded_task

ARROW_COLUMNS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


class HarnessSource(DataSource):
    """A topic of a test."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "moldau-harness"

    def schema(self) -> StructType:
        """The columns of the format "moldau"."""
        return columns_of(self._formats(), include_headers=self.options.get("includeheaders") == "true")

    def _formats(self) -> RecordFormats:
        return parse_formats(self.options, writing=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch query."""
        return _Batch(self.options["path"], schema.fieldNames(), self._formats())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A streaming query."""
        return _Stream(self.options["path"], schema.fieldNames(), self._formats())


class FilesPartition(InputPartition):
    """The files that a task reads."""

    def __init__(self, files: tuple[str, ...]) -> None:
        self.files = files


class _Batch(DataSourceReader):
    def __init__(self, folder: str, columns: Sequence[str], formats: RecordFormats) -> None:
        self._folder, self._formats = folder, formats
        self._keep_headers = "headers" in columns
        self._columns = [name for name in columns if name in ARROW_COLUMNS.names]
        if formats.has_schemas and not self._keep_headers:
            self._columns.append("headers")

    def partitions(self) -> Sequence[InputPartition]:
        return [FilesPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # The files of now: Spark asks for partitions once, and reads them in every micro-batch.
        files = FilesPartition(tuple(files_of(self._folder)))
        return decoded_task(_read(files, self._columns), self._formats, keep_headers=self._keep_headers)


class _Stream(DataSourceStreamReader):
    def __init__(self, folder: str, columns: Sequence[str], formats: RecordFormats) -> None:
        self._folder, self._formats = folder, formats
        self._keep_headers = "headers" in columns
        self._columns = [name for name in columns if name in ARROW_COLUMNS.names]
        if formats.has_schemas and not self._keep_headers:
            self._columns.append("headers")

    def initialOffset(self) -> dict[str, int]:
        return {"files": 0}

    def latestOffset(self, start: Mapping[str, int], limit: Any) -> dict[str, int]:
        return {"files": len(files_of(self._folder))}

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[InputPartition]:
        return [FilesPartition(tuple(files_of(self._folder)[start["files"] : end["files"]]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return decoded_task(_read(partition, self._columns), self._formats, keep_headers=self._keep_headers)

    def commit(self, end: Mapping[str, int]) -> None:
        pass

    def stop(self) -> None:
        pass


def files_of(folder: str | Path) -> list[str]:
    """A topic's files, oldest first."""
    return sorted(str(path) for path in Path(folder).glob("*.arrow"))


def append(folder: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Add records to a topic: rows of ARROW_COLUMNS."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / "unfinished"
    with pa.OSFile(str(unfinished), "wb") as file, pa.ipc.new_file(file, ARROW_COLUMNS) as writer:
        writer.write_table(pa.Table.from_pylist(list(records), ARROW_COLUMNS))
    unfinished.rename(folder / f"{len(files_of(folder)):08d}.arrow")


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """All records of a topic."""
    return [row for path in files_of(folder) for row in _table(path).to_pylist()]


def _table(path: str) -> pa.Table:
    with pa.OSFile(path, "rb") as file:
        return pa.ipc.open_file(file).read_all()


def _read(partition: InputPartition, columns: list[str]) -> Iterator[pa.RecordBatch]:
    # Spark makes up a partition of another kind where a batch has none.
    for path in partition.files if isinstance(partition, FilesPartition) else ():
        yield from _table(path).select(columns).to_batches()
