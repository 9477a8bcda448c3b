"""What a new cluster begins with: a file that `kafka-storage format` writes beside the metadata.

    moldau-first-changes.json    {"changes": [["scram-credential-set", ...], ...]}

The broker that makes the cluster appends these changes with the cluster's id, so that users can log in from
the first moment. It then removes the file, which holds keys; so does a broker that finds the cluster made.
"""

import json
import logging
from collections.abc import Sequence

from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.codec import decode_changes, encode_changes, to_json
from moldau.broker.metadata.store import MetadataStoreError
from moldau.common.core.files import Files, read_file

log = logging.getLogger("moldau.metadata")

FILE_NAME = "moldau-first-changes.json"


def to_bytes(changes: Sequence[Change]) -> bytes:
    """The file's content."""
    return to_json({"changes": encode_changes(changes)}) + b"\n"


def read_first_changes(files: Files, folder: str) -> list[Change]:
    """The changes of a folder; none without the file. MetadataStoreError: the file cannot be read."""
    path = f"{folder}/{FILE_NAME}"
    if not files.exists(path):
        return []
    try:
        return decode_changes(json.loads(read_file(files, path))["changes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        kind = error.strerror if isinstance(error, OSError) else "its content is not what format writes"
        raise MetadataStoreError(f"{path} cannot be read: {kind}") from error


def remove_first_changes(files: Files, folder: str, *, used: bool) -> None:
    """The changes are in the metadata, or (not `used`) the cluster was there already: remove the file."""
    path = f"{folder}/{FILE_NAME}"
    if not files.exists(path):
        return
    if not used:
        log.warning(
            "%s is not used and removed: the cluster was made before; add users with kafka-configs", path
        )
    files.remove(path)
    files.sync_directory(folder)
