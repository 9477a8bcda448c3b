"""Files of one format become one, row after row. Memory does not grow with them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from pyarrow import parquet

_HEADER_BYTES_MAX = 1 << 20


def are_alike(files: Sequence[Path], format_: str) -> bool:
    """Whether they have the same columns."""
    if format_ == "json":
        return True
    if format_ == "csv":
        return len({_header(each) for each in files}) == 1
    first = parquet.read_schema(files[0])
    return all(parquet.read_schema(each).equals(first) for each in files[1:])


def join(files: Sequence[Path], target: Path, format_: str, compression: str) -> None:
    """Write them as one. OSError, pyarrow's errors."""
    if format_ == "parquet":
        schema = parquet.read_schema(files[0])
        with parquet.ParquetWriter(target, schema, compression=compression) as writer:
            for each in files:
                with parquet.ParquetFile(each) as file:
                    for group in range(file.num_row_groups):
                        writer.write_table(file.read_row_group(group))
        return
    with target.open("wb") as out:
        for number, each in enumerate(files):
            with each.open("rb") as file:
                if number and format_ == "csv":
                    file.seek(len(_header_of(file)))
                shutil.copyfileobj(file, out, 1 << 20)


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return _header_of(file)


def _header_of(file: BinaryIO) -> bytes:
    """The first line; names of columns may have line breaks within their quotes."""
    file.seek(0)
    start = file.read(_HEADER_BYTES_MAX)
    is_quoted = False
    for at, byte in enumerate(start):
        if byte == ord('"'):
            is_quoted = not is_quoted
        elif byte == ord("\n") and not is_quoted:
            return start[: at + 1]
    return start
