"""The files in config/ of a Kafka home: name -> text. A file that was changed is left as it is.

What was written is remembered beside it (config/.written, with checksums), so that a later release may renew
what nobody has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

_WRITTEN = ".written"


def write_config(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write the files that are missing or as they were written; return the others."""
    folder.mkdir(exist_ok=True)
    note = folder / _WRITTEN
    written = _read(note)
    kept = []
    for name, text in files.items():
        path = folder / name
        new = text.encode()
        if path.exists() and (old := path.read_bytes()) != new and _sum(old) != written.get(name):
            kept.append(path)
            continue
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(new)
        written[name] = _sum(new)
    note.write_text(json.dumps(written, indent=1) + "\n")
    return kept


def _read(note: Path) -> dict[str, str]:
    try:
        found = json.loads(note.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
