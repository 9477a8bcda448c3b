"""What a spool finds in its folder at start: segments are checked, a torn tail is cut, damage is refused.

Only the newest segment can have been torn: a segment is synced whole before the next one is made. A frame
that does not check out is cut with all that follows it if a crash explains it (frames.py). Everything else
raises SpoolDamaged, and changes nothing.
"""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass

from moldau.common.core.files import Files, read_file
from moldau.kit.spool import frames
from moldau.kit.spool.errors import SpoolDamaged
from moldau.kit.spool.position import Saved

log = logging.getLogger("moldau.kit.spool")

_NAME = re.compile(r"(\d{20})\.spool")


@dataclass
class Segment:
    """One file of the spool: its records' numbers are `first_number` up to, without, `next_number`."""

    path: str
    first_number: int
    next_number: int
    size_bytes: int


def segment_path(folder: str, first_number: int) -> str:
    """The file's name: its first number, so that names sort as the records do."""
    return os.path.join(folder, f"{first_number:020d}.spool")


def recover(files: Files, folder: str, saved: Saved) -> list[Segment]:
    """The spool's segments, oldest first, all checked. Raises SpoolDamaged, OSError."""
    numbers = sorted(int(m[1]) for name in files.list_directory(folder) if (m := _NAME.fullmatch(name)))
    while len(numbers) > 1 and numbers[1] <= saved.position and numbers[0] != saved.segment:
        files.remove(segment_path(folder, numbers.pop(0)))  # the crash came before this
    if saved.segment >= 0 and saved.segment not in numbers:
        raise SpoolDamaged(segment_path(folder, saved.segment), 0, "the file is missing")
    segments: list[Segment] = []
    for number in numbers:
        found = _check(files, folder, number, saved, newest=number == numbers[-1])
        if found is None:
            continue
        if segments and segments[-1].next_number != number:
            raise SpoolDamaged(
                found.path,
                0,
                f"it follows record {segments[-1].next_number - 1}, a file between them is missing",
            )
        segments.append(found)
    return segments


def _check(files: Files, folder: str, number: int, saved: Saved, *, newest: bool) -> Segment | None:
    """Read one segment; None if it was only being made when the crash came (then it is removed)."""
    path = segment_path(folder, number)
    data = read_file(files, path)
    synced_end = saved.synced_end if number == saved.segment else 0
    if data[: frames.HEADER.size] != frames.header(saved.spool_id, number):
        if newest and len(data) <= frames.HEADER.size and not synced_end:
            files.remove(path)
            files.sync_directory(folder)
            return None
        raise SpoolDamaged(path, 0, "the header is not this spool's")
    scan = frames.scan(data, saved.spool_id, number)
    segment = Segment(path, number, number + scan.record_count, scan.end)
    if scan.end < max(len(data), synced_end):
        what = scan.what or "the file was shortened"
        if not newest or scan.end < synced_end:
            raise SpoolDamaged(path, scan.end, what)
        if segment.next_number < saved.position:
            raise SpoolDamaged(path, scan.end, f"{what}, in records that had been read")
        if frames.synced_beyond(data, scan.end, saved.spool_id, number):
            raise SpoolDamaged(path, scan.end, f"{what}, and records after it are whole")
        _cut(files, path, scan.end, len(data))
    return segment


def _cut(files: Files, path: str, end: int, size_bytes: int) -> None:
    """Cut a torn tail, on the disk too: what was cut must not come back behind new frames."""
    log.warning("%s: cut %d bytes that a crash left half-written", path, size_bytes - end)
    fd = files.open(path)
    try:
        files.truncate(fd, end)
        files.sync(fd)
    finally:
        files.close(fd)
