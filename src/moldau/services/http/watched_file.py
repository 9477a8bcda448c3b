"""A file of logins or rights, read again when it changes: a user who leaves is refused without a restart.

It is looked at when it is asked for, at most once a second. One that cannot be read any more, or has a line
that is wrong, leaves what was read before, with a warning in the log.
"""

import logging
import os
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from moldau.common.settings.rows import SettingError

log = logging.getLogger("moldau.http")

T = TypeVar("T")

_LOOK_AGAIN_SECONDS = 1.0


class WatchedFile(Generic[T]):
    """What `parse` makes of a file's text."""

    def __init__(
        self,
        setting: str,
        path: str,
        parse: Callable[[str], T],
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """SettingError, also from `parse`: the file cannot be read."""
        self._setting, self._path, self._parse = setting, path, parse
        self._now_seconds = now_seconds
        self._stamp = self._stamp_now()
        self._looked_seconds = now_seconds()
        self._found = self._read()
        self._complaint = ""

    def get(self) -> T:
        """As the file is now, or was a second ago."""
        now_seconds = self._now_seconds()
        if now_seconds - self._looked_seconds >= _LOOK_AGAIN_SECONDS:
            self._looked_seconds = now_seconds
            self._read_if_changed()
        return self._found

    def _read_if_changed(self) -> None:
        try:
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self._found = self._read()
                self._stamp, self._complaint = stamp, ""
        except SettingError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("%s; what was read before stays", error)

    def _stamp_now(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise SettingError(self._setting, f"{self._setting}={self._path}: {error.strerror}") from None
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def _read(self) -> T:
        try:
            with open(self._path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(self._setting, f"{self._setting}={self._path}: {error}") from None
        return self._parse(text)
