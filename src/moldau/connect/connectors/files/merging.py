"""Small files of a topic partition in a folder become one, and no reader sees a row twice or not at all.

    1  _moldau/TOPIC/0.EPOCH.merge.json   what is to become what
    2  _moldau/TOPIC/0.EPOCH.merge/       the folder as it is to be: the large file, and links to all others
    3  it and the folder change names in one step
    4  what came into the folder between 2 and 3 is linked into the new one; the old one is removed

The plan names the links of 2: after a crash, others may have merged these files before 4 is made up for.

A crash before 3 leaves a folder that nobody sees; one after 3 is completed at the next start: the folder has
the large file, or it has not. Who lists the folder sees the small files or the large one. Who listed it
before 3 and opens a small file after 3 hears that there is no such file, and lists again: the large file has
a name of its own, so that none of its rows are read under an old name.

Programs that remember which files they have read (a streaming reader of the folder) take the large one for
a new file: for these, `merge.min.files` is to stay 0. Delta and Iceberg have logs that such programs read.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from moldau.connect.batch import TopicPartition
from moldau.connect.connectors.files.durable import replace_durably, sync_file, sync_folder
from moldau.connect.connectors.files.exchange import NoExchange, exchange
from moldau.connect.connectors.files.joining import are_alike, join
from moldau.connect.connectors.files.manifest import Manifest

log = logging.getLogger("moldau.connect")

_OFFSETS = re.compile(r"([0-9]+)(?:\+([0-9]+))?")


class Small(NamedTuple):
    """A file of the partition."""

    name: str
    first: int
    last: int
    """Its first offset, and that of the last file in it."""
    size: int


class Merging:
    """Of one topic partition, by the task that has its manifest."""

    def __init__(self, folder: Path, place: TopicPartition, manifest: Manifest, settings: Mapping[str, Any]):
        """Complete what a crash left. OSError."""
        self._folder = folder
        self._manifest = manifest
        self._home = manifest.home
        self._format: str = settings["format"]
        self._ending = settings["format"]
        self._compression: str = settings["parquet.codec"]
        self._bytes_max: int = settings["rotate.bytes"]
        self._files_min: int = settings["merge.min.files"]
        self._plan = self._home / f"{place.partition}.{manifest.epoch}.merge.json"
        self._place = place
        self._waiting: dict[str, None] = {}
        """Folders that may have small files, relative to the topic's."""
        with manifest.alone():
            for each in self._home.glob(f"{place.partition}.*.merge.json"):
                self._settle(each)

    def touched(self, name: str) -> None:
        """A file was put into this folder."""
        if self._files_min:
            self._waiting[name] = None

    def step(self) -> None:
        """Merge what there is in one folder, once. OSError."""
        while self._files_min and self._waiting:
            name = next(iter(self._waiting))
            try:
                chosen = self._chosen(self._folder / name)
            except FileNotFoundError:
                chosen = []
            if len(chosen) < 2:
                del self._waiting[name]
                continue
            self._merge(self._folder / name, chosen)
            return

    def _chosen(self, folder: Path) -> Sequence[Small]:
        """Neighbours that are to become one, of which none is larger than the others together (so that a row
        is written again a few times at most), and not more than a file may have."""
        runs: list[list[Small]] = [[]]
        for each in self._small(folder):
            if sum(one.size for one in runs[-1]) + each.size > self._bytes_max:
                runs.append([])
            runs[-1].append(each)
        for run in runs:
            chosen = self._of_like_size(run)
            while chosen and not are_alike([folder / each.name for each in chosen], self._format):
                alike = self._alike_first(folder, chosen)
                chosen = self._of_like_size(chosen[:alike]) or self._of_like_size(chosen[alike:])
            if chosen:
                return chosen
        return []

    def _of_like_size(self, run: Sequence[Small]) -> Sequence[Small]:
        while len(run) >= max(self._files_min, 2):
            sizes = [each.size for each in run]
            largest = max(sizes)
            if largest * 2 <= sum(sizes):
                return run
            run = run[sizes.index(largest) + 1 :]
        return []

    def _alike_first(self, folder: Path, files: Sequence[Small]) -> int:
        """How many have the columns of the first."""
        first = folder / files[0].name
        for count, each in enumerate(files):
            if not are_alike([first, folder / each.name], self._format):
                return count
        return len(files)

    def _small(self, folder: Path) -> list[Small]:
        begins = f"{folder.relative_to(self._folder).parts[0]}+{self._place.partition}+"
        ends = f".{self._ending}"
        found = []
        with os.scandir(folder) as entries:
            for each in entries:
                if each.is_dir(follow_symlinks=False):
                    return []  # links of folders are none
                if not (each.name.startswith(begins) and each.name.endswith(ends)):
                    continue
                offsets = _OFFSETS.fullmatch(each.name[len(begins) : -len(ends)])
                if offsets is not None and each.is_file(follow_symlinks=False):
                    first = int(offsets[1])
                    found.append(Small(each.name, first, int(offsets[2] or first), each.stat().st_size))
        return sorted(found, key=lambda small: small.first)

    def _merge(self, folder: Path, chosen: Sequence[Small]) -> None:
        topic = folder.relative_to(self._folder).parts[0]
        first, last = chosen[0].first, chosen[-1].last
        merged = f"{topic}+{self._place.partition}+{first:010}+{last:010}.{self._ending}"
        chosen_names = [each.name for each in chosen]
        plan = {
            "folder": str(folder.relative_to(self._folder)), "files": chosen_names, "merged": merged,
        }  # fmt: skip
        staged = self._plan.with_suffix("")
        replace_durably(self._plan, json.dumps(plan).encode())
        try:
            staged.mkdir()
            shutil.copystat(folder, staged)
            join([folder / each.name for each in chosen], staged / merged, self._format, self._compression)
            sync_file(staged / merged)
        except (pa.ArrowException, OSError) as problem:
            self._settle(self._plan)
            if isinstance(problem, OSError):
                raise
            log.warning("%s: files are not merged: %s", folder, problem)
            self._waiting.pop(str(folder.relative_to(self._folder)), None)
            return
        with self._manifest.alone():
            linked = _link_others(folder, staged, set(chosen_names))
            replace_durably(self._plan, json.dumps({**plan, "linked": linked}).encode())
            sync_folder(staged)
            try:
                exchange(staged, folder)
            except NoExchange as problem:
                log.warning("%s: small files are not merged here: %s", self._folder, problem.strerror)
                self._files_min = 0
            self._settle(self._plan)

    def _settle(self, plan_file: Path) -> None:
        """After 3 of the module: complete it; before: forget it."""
        plan = json.loads(plan_file.read_bytes())
        folder, staged = self._folder / plan["folder"], plan_file.with_suffix("")
        if staged.exists():
            sync_folder(folder.parent)
            sync_folder(self._home)
            if (folder / plan["merged"]).exists():
                known = {*plan["files"], plan["merged"], *plan.get("linked", ())}
                _link_others(staged, folder, known)
                sync_folder(folder)
            shutil.rmtree(staged)
        plan_file.unlink()


def _link_others(source: Path, target: Path, without: set[str]) -> list[str]:
    """Files of one folder are in the other, too; their names."""
    names = []
    with os.scandir(source) as entries:
        for each in entries:
            if each.name not in without:
                names.append(each.name)
                with suppress(FileExistsError):
                    os.link(each.path, target / each.name, follow_symlinks=False)
    return names
