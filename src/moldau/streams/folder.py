"""A folder on this machine or behind a URI: the few operations that checkpoints need.

Spark writes its checkpoints itself. What is written beside them (owner, driver) and read from them (list,
describe) goes through here: with Python's files for a folder on this machine, with pyarrow's file systems for
a URI such as s3a://bucket/checkpoints or hdfs://host/checkpoints.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from moldau.streams.errors import StreamsError

SAME_AS = {"s3a": "s3", "s3n": "s3"}
"""Names that only Hadoop has for a scheme."""


class Folder:
    """A folder by its path or URI."""

    def __init__(self, address: str | Path) -> None:
        text = str(address)
        if text.startswith("file:"):
            text = url2pathname(urlsplit(text).path)
        self.is_local = "://" not in text
        self.address = str(Path(text).expanduser().absolute()) if self.is_local else text.rstrip("/")

    def __truediv__(self, name: str) -> Folder:
        return Folder(f"{self.address}/{name}")

    def __str__(self) -> str:
        return self.address

    @property
    def uri(self) -> str:
        """The address as Spark takes it, whatever its default file system is."""
        return Path(self.address).as_uri() if self.is_local else self.address

    def names(self) -> list[str]:
        """What is in it, in order; nothing if it is not there."""
        if self.is_local:
            try:
                return sorted(os.listdir(self.address))
            except (FileNotFoundError, NotADirectoryError):
                return []
        from pyarrow.fs import FileSelector

        system, path = self._system()
        found = system.get_file_info(FileSelector(path, allow_not_found=True))
        return sorted(each.base_name for each in found)

    def read(self, name: str) -> str | None:
        """The text of a file in it; None if there is none."""
        if self.is_local:
            try:
                return (Path(self.address) / name).read_text()
            except (FileNotFoundError, NotADirectoryError):
                return None
        system, path = self._system()
        try:
            with system.open_input_stream(f"{path}/{name}") as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        """Make or replace a file in it, and the folder; a reader sees the old text or the new one."""
        if self.is_local:
            folder = Path(self.address)
            folder.mkdir(parents=True, exist_ok=True)
            unfinished = folder / f".{name}.{os.getpid()}.tmp"
            unfinished.write_text(text)
            unfinished.replace(folder / name)
            return
        system, path = self._system()
        system.create_dir(path, recursive=True)
        with system.open_output_stream(f"{path}/{name}") as stream:
            stream.write(text.encode())

    def remove_file(self, name: str) -> None:
        """Remove a file in it; nothing if it is not there."""
        if self.is_local:
            (Path(self.address) / name).unlink(missing_ok=True)
        elif name in self.names():
            system, path = self._system()
            system.delete_file(f"{path}/{name}")

    def remove(self) -> None:
        """Remove it with all that is in it."""
        if self.is_local:
            shutil.rmtree(self.address, ignore_errors=False)
        else:
            system, path = self._system()
            system.delete_dir(path)

    def _system(self) -> tuple[Any, str]:
        scheme = urlsplit(self.address).scheme
        try:
            from pyarrow.fs import FileSystem

            system, path = FileSystem.from_uri(self.address.replace(scheme, SAME_AS.get(scheme, scheme), 1))
        except ImportError:
            raise StreamsError(
                f"pyarrow reads {self.address}, and is missing: pip install 'moldau[spark]'"
            ) from None
        except (ValueError, OSError) as failure:
            raise StreamsError(f"{self.address} cannot be reached: {failure}") from None
        return system, path
