"""The users that a cluster begins with: a file beside the metadata, which the first start takes and removes
(broker/metadata/first_changes.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from moldau.broker.metadata.changes import Change, ScramCredentialSet, ScramSecretMade
from moldau.broker.metadata.first_changes import FILE_NAME, to_bytes
from moldau.common.credentials.scram_credential import ScramCredential

_SECRET_BYTES = 32


def first_users(users: Iterable[tuple[str, str, ScramCredential]]) -> bytes:
    """The content of the file for users with mechanisms and credentials."""
    changes: list[Change] = [ScramSecretMade(os.urandom(_SECRET_BYTES))]
    changes += [ScramCredentialSet(*each) for each in users]
    return to_bytes(changes)


def write_first_users(folder: Path, content: bytes) -> None:
    """Write the file, for its owner only. OSError."""
    path, partial = folder / FILE_NAME, folder / f"{FILE_NAME}.tmp"
    folder.mkdir(parents=True, exist_ok=True)
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
