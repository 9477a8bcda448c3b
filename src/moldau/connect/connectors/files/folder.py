"""Which files a FileSource reads: one file, or those of a folder whose names match a pattern.

Names that begin with a dot or an underscore, and those that end with .tmp or .part, are files in the making.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from moldau.common.core.patterns import PatternError, compile_pattern
from moldau.connect.errors import Retriable

_MAKING = (".tmp", ".part", ".crdownload", ".new")


class Found(NamedTuple):
    """A file of the folder."""

    name: str
    """Relative to the folder."""
    path: Path
    size: int
    modified_ns: int


class Folder:
    """A folder, or a single file."""

    def __init__(self, path: str, pattern: str | None, glob: str | None, subfolders: bool) -> None:
        self._path = Path(path)
        self._pattern = compile_pattern(pattern) if pattern else None
        self._glob = glob
        self._subfolders = subfolders

    def files(self, part: int, parts: int) -> list[Found]:
        """Those of a part, oldest first. Retriable: the folder cannot be read."""
        try:
            found = [each for each in self._all() if parts == 1 or part_of(each.name, parts) == part]
        except OSError as error:
            raise Retriable(f"{self._path} cannot be listed: {error.strerror}") from error
        return sorted(found, key=lambda each: (each.modified_ns, each.name))

    def _all(self) -> Iterator[Found]:
        if not self._path.is_dir():
            if self._path.exists():
                there = self._path.stat()
                yield Found(self._path.name, self._path, there.st_size, there.st_mtime_ns)
            return
        yield from self._below(self._path, "")

    def _below(self, folder: Path, prefix: str) -> Iterator[Found]:
        with os.scandir(folder) as entries:
            for each in entries:
                if each.name.startswith((".", "_")):
                    continue
                name = prefix + each.name
                if each.is_dir():
                    if self._subfolders:
                        yield from self._below(Path(each.path), f"{name}/")
                elif self._has(each.name) and each.is_file():
                    there = each.stat()
                    yield Found(name, Path(each.path), there.st_size, there.st_mtime_ns)

    def _has(self, name: str) -> bool:
        if name.endswith(_MAKING):
            return False
        if self._pattern is not None and not self._pattern.fullmatch(name):
            return False
        return self._glob is None or fnmatchcase(name, self._glob)


def part_of(name: str, parts: int) -> int:
    """Which part a file belongs to, always the same."""
    return zlib.crc32(name.encode("utf-8", "surrogateescape")) % parts


def check_pattern(text: str) -> str | None:
    """What is wrong with a pattern."""
    try:
        compile_pattern(text)
    except PatternError as wrong:
        return str(wrong)
    return None
