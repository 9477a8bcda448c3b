"""The offsets that groups had before a reset or a deletion, kept for a day, so that it can be undone.

With a directory they outlive the console: one file of JSON lines, written anew when half of it is too old.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from moldau.client.admin.layout import Place
from moldau.common.settings.rows import SettingError

KEPT_MS = 24 * 3_600_000
KEPT_MAX = 1_000
_FILE = "group-offsets-before-resets.jsonl"


class Kept(NamedTuple):
    """The offsets of a group before something was done to it."""

    id: str
    at_ms: int
    group: str
    who: str
    done: str
    offsets: Mapping[Place, int]
    added: tuple[Place, ...]
    """Partitions that had no offset before."""


class Undo:
    """For threads and the event loop."""

    def __init__(
        self, directory: str | None, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        """SettingError: the directory cannot be used."""
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._kept: dict[str, Kept] = {}
        self._path: Path | None = None
        if directory:
            path = Path(directory)
            try:
                path.mkdir(parents=True, exist_ok=True)
                self._path = path / _FILE
                self._read()
                self._write()
            except OSError as problem:
                name = "moldau.console.data.dir"
                raise SettingError(name, f"{name}={directory} cannot be used: {problem.strerror}") from None

    def keep(
        self, group: str, who: str, done: str, offsets: Mapping[Place, int], added: tuple[Place, ...] = ()
    ) -> Kept:
        """Keep what a group has committed, before it is changed. OSError: it cannot be written down."""
        kept = Kept(secrets.token_urlsafe(12), self._now_ms(), group, who, done, dict(offsets), added)
        with self._lock:
            self._forget_old()
            self._kept[kept.id] = kept
            while len(self._kept) > KEPT_MAX:
                self._kept.pop(next(iter(self._kept)))
            self._write()
        return kept

    def find(self, id: str) -> Kept | None:
        """What was kept."""
        with self._lock:
            self._forget_old()
            return self._kept.get(id)

    def of_group(self, group: str) -> list[Kept]:
        """What was kept of a group, the newest first."""
        with self._lock:
            self._forget_old()
            return [each for each in reversed(self._kept.values()) if each.group == group]

    def _forget_old(self) -> None:
        oldest = self._now_ms() - KEPT_MS
        for id in [id for id, each in self._kept.items() if each.at_ms < oldest]:
            del self._kept[id]

    def _read(self) -> None:
        if self._path is None or not self._path.exists():
            return
        for line in self._path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                row = json.loads(line)
                offsets = {(topic, int(index)): int(offset) for topic, index, offset in row["offsets"]}
                added = tuple((topic, int(index)) for topic, index in row["added"])
                self._kept[row["id"]] = Kept(
                    row["id"], row["at_ms"], row["group"], row["who"], row["done"], offsets, added
                )
        self._forget_old()

    def _write(self) -> None:
        if self._path is None:
            return
        lines = [
            json.dumps(
                {
                    **each._asdict(),
                    "offsets": [[topic, index, offset] for (topic, index), offset in each.offsets.items()],
                    "added": [list(place) for place in each.added],
                }
            )
            for each in self._kept.values()
        ]
        new = self._path.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        new.replace(self._path)
