"""The file `position`: the spool's identity, the number of the next record to take, and how far was synced.

One line of JSON and its crc32c. It is replaced atomically (aside, synced, renamed): after a crash it is the
old or the new one. It exists from the moment a spool is made; a spool without it is damaged.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from moldau.common.core.crc import crc32c
from moldau.common.core.files import Files, read_file, write_atomically
from moldau.kit.spool.errors import SpoolDamaged
from moldau.kit.spool.frames import ID_BYTES

NAME = "position"


@dataclass(frozen=True)
class Saved:
    """What the file says. `segment` is the newest segment (by its first number) and `synced_end` the bytes of
    it that were on the disk then; -1 and 0 before there is any.
    """

    spool_id: bytes
    position: int
    segment: int = -1
    synced_end: int = 0


def load(files: Files, folder: str) -> Saved | None:
    """Read the file; None if there is none. Raises SpoolDamaged."""
    path = os.path.join(folder, NAME)
    if not files.exists(path):
        return None
    content = read_file(files, path)
    line, _, check = content.partition(b"\n")
    if check.strip() != f"{crc32c(line):08x}".encode():
        raise SpoolDamaged(path, 0, "its checksum is wrong")
    try:
        said = json.loads(line)
        spool_id = bytes.fromhex(said["id"])
        saved = Saved(spool_id, int(said["position"]), int(said["segment"]), int(said["synced_end"]))
    except (ValueError, KeyError, TypeError) as problem:
        raise SpoolDamaged(path, 0, f"it is no position of a spool: {problem}") from None
    if len(spool_id) != ID_BYTES:
        raise SpoolDamaged(path, 0, "the spool's id has the wrong length")
    return saved


def save(files: Files, folder: str, saved: Saved, *, sync: bool) -> None:
    """Replace the file. Raises OSError; the old one is kept then."""
    said = {
        "id": saved.spool_id.hex(),
        "position": saved.position,
        "segment": saved.segment,
        "synced_end": saved.synced_end,
    }
    line = json.dumps(said).encode()
    content = line + f"\n{crc32c(line):08x}\n".encode()
    write_atomically(files, os.path.join(folder, NAME), content, sync=sync)
