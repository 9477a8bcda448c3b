"""A broker's server.properties, written by `moldau cluster start`, and lines that somebody changed by hand.

The first line has a checksum of the rest. Where it does not fit, somebody has edited the file: it is kept
under another name before it is written anew, and the caller is told what gets lost.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

from moldau.common.core.properties import parse_properties

KEPT = ".by-hand"
_HEAD = (
    "# Written by `moldau cluster start`, which writes it anew each time: give settings to it with --set. "
)


def write_settings(file: Path, settings: Mapping[str, str]) -> list[str]:
    """Write the file; return the names of the settings, changed by hand since, that it no longer has."""
    body = "".join(f"{name}={value}\n" for name, value in settings.items())
    before = file.read_text(errors="replace") if file.exists() else ""
    lost: list[str] = []
    if before and before != _whole(body) and not _is_ours(before):
        lost = _lost(before, settings)
        if lost:
            file.replace(file.with_name(file.name + KEPT))
    file.write_text(_whole(body))
    return lost


def _lost(before: str, settings: Mapping[str, str]) -> list[str]:
    try:
        there = parse_properties(before)
    except ValueError:
        return ["lines that cannot be read"]
    if not before.startswith(_HEAD):  # of an earlier version: its values may be those of an earlier plan
        return [name for name in there if name not in settings]
    return [name for name, value in there.items() if settings.get(name) != value]


def _whole(body: str) -> str:
    return f"{_HEAD}{zlib.crc32(body.encode()):08x}\n{body}"


def _is_ours(text: str) -> bool:
    """Whether nobody has changed it since it was written."""
    head, _, body = text.partition("\n")
    return head.startswith(_HEAD) and text == _whole(body)
