"""The small text files beside the logs, in Kafka's own forms, each replaced atomically.

    recovery-point-offset-checkpoint, replication-offset-checkpoint, log-start-offset-checkpoint,
    cleaner-offset-checkpoint  (one a log directory):
        0                    version
        2                    how many lines follow
        flights 0 1234       topic, partition, offset

    leader-epoch-checkpoint  (one a partition): the same with `leader_epoch start_offset` lines

    partition.metadata       version: 0 / topic_id: <base64>
    meta.properties          version=1, cluster.id, node.id, directory.id

    aborted-transactions-checkpoint  (ours): lines `flights-0 base_offset checksum`, one for each segment with
        an index of aborted transactions; after a clean stop one `recovery-point-offset-checkpoint 0 checksum`
        of that file, by which the two belong together

A damaged checkpoint means more recovery, not a failed start: readers return the valid lines and log a
warning. What cannot be read at all (a directory of that name) is renamed, so that the file can be written
again.
"""

import logging
import re
from collections.abc import Iterable, Mapping

from moldau.common.core.files import Files, read_file, write_atomically
from moldau.common.core.ids import uuid_from_text, uuid_to_text
from moldau.common.core.properties import parse_properties

RECOVERY_POINT_NAME = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_NAME = "replication-offset-checkpoint"
LOG_START_NAME = "log-start-offset-checkpoint"
CLEANER_OFFSETS_NAME = "cleaner-offset-checkpoint"
"""Up to which offset each compacted log has been cleaned."""
ABORTED_TRANSACTIONS_NAME = "aborted-transactions-checkpoint"
PARTITION_METADATA_NAME = "partition.metadata"
META_PROPERTIES_NAME = "meta.properties"
_VERSION = "0"
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_OFFSET_MAX = (1 << 63) - 1
UNREADABLE_SUFFIX = ".unreadable"

logger = logging.getLogger("moldau.log.checkpoints")


def read_small_file(files: Files, path: str) -> bytes | None:
    """The whole file, or None when it is missing or cannot be read as a file at all.

    OSError when the disk fails.
    """
    try:
        return read_file(files, path)
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        files.rename(path, path + UNREADABLE_SUFFIX)
        logger.error("%s is a directory: renamed to %s", path, path + UNREADABLE_SUFFIX)
        return None
    except PermissionError as error:
        logger.error("%s cannot be read and is ignored: %s; correct its permissions", path, error.strerror)
        return None


def stored_cluster_id(files: Files, directories: Iterable[str]) -> str | None:
    """The cluster.id in a log directory's meta.properties, if there is one, as in a folder of Kafka's."""
    for directory in directories:
        data = read_small_file(files, f"{directory}/{META_PROPERTIES_NAME}")
        try:
            cluster_id = read_fields(data).get("cluster.id")
        except ValueError:
            continue  # whoever opens the directory says so
        if cluster_id:
            return cluster_id
    return None


def _read_lines(files: Files, path: str) -> list[list[str]]:
    """The fields of a versioned file's lines; empty when it is missing or damaged."""
    try:
        data = read_small_file(files, path)
        if data is None:
            return []
        text = data.decode()
    except UnicodeDecodeError:
        logger.warning("%s is damaged (not text) and is ignored", path)
        return []
    if not text:
        logger.warning("%s is empty and is ignored", path)
        return []
    lines = text.splitlines()
    if not text.endswith("\n"):
        # Also a number that has lost its last digit is a number.
        logger.warning("%s is damaged (it breaks off) and is ignored", path)
        return []
    if len(lines) < 2 or lines[0] != _VERSION or not lines[1].isdecimal() or int(lines[1]) != len(lines) - 2:
        logger.warning("%s is damaged (version or line count) and is ignored", path)
        return []
    return [line.rsplit(maxsplit=2) for line in lines[2:]]


def _write_lines(files: Files, path: str, lines: list[str], *, sync: bool) -> None:
    text = "\n".join([_VERSION, str(len(lines)), *lines]) + "\n"
    write_atomically(files, path, text.encode(), sync=sync)


def read_offsets(files: Files, path: str) -> dict[tuple[str, int], int]:
    """(topic, partition) -> offset; without the lines that are damaged, empty when the file is missing or
    not one of its kind.
    """
    offsets: dict[tuple[str, int], int] = {}
    for fields in _read_lines(files, path):
        if len(fields) == 3 and _is_number(fields[1]) and _is_number(fields[2]):
            offsets[fields[0], int(fields[1])] = int(fields[2])
        else:
            logger.warning("%s is damaged in the line '%s', which is ignored", path, " ".join(fields))
    return offsets


def _is_number(text: str) -> bool:
    """Whether this is an offset or the number of a partition."""
    return _NUMBER.fullmatch(text) is not None and int(text) <= _OFFSET_MAX


def write_offsets(files: Files, path: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Replace the file."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    _write_lines(files, path, lines, sync=True)


def read_epochs(files: Files, path: str) -> list[tuple[int, int]]:
    """(leader epoch, start offset), as the file has them; empty when it is missing or damaged."""
    try:
        entries = [(int(leader_epoch), int(start)) for leader_epoch, start in _read_lines(files, path)]
        if any(not (0 <= each <= _OFFSET_MAX) for entry in entries for each in entry):
            raise ValueError
        return entries
    except ValueError:
        logger.warning("%s is damaged and is ignored", path)
        return []


def write_epochs(files: Files, path: str, entries: Iterable[tuple[int, int]]) -> None:
    """Replace the file. It is not synced: recovery completes it from the batches' own epochs."""
    _write_lines(files, path, [f"{leader_epoch} {start}" for leader_epoch, start in entries], sync=False)


def read_topic_id(files: Files, directory: str) -> bytes | None:
    """The topic id in the directory's partition.metadata, or None."""
    path = f"{directory}/{PARTITION_METADATA_NAME}"
    try:
        data = read_small_file(files, path)
        if data is None:
            return None
        return uuid_from_text(read_fields(data)["topic_id"])
    except (KeyError, ValueError) as error:
        logger.warning("%s is damaged (%s) and is ignored", path, error)
        return None


def write_topic_id(files: Files, directory: str, topic_id: bytes) -> None:
    """Write the directory's partition.metadata."""
    text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n"
    write_atomically(files, f"{directory}/{PARTITION_METADATA_NAME}", text.encode(), sync=False)


def read_fields(data: bytes | None) -> dict[str, str]:
    """The pairs of meta.properties or partition.metadata, without blanks around. A name without a value is
    left out: the line may be cut off. ValueError for an escape that is none."""
    pairs = parse_properties((data or b"").decode(errors="replace"))
    return {name: text for name, value in pairs.items() if (text := value.strip())}


def format_properties(pairs: Mapping[str, str]) -> bytes:
    """A properties file of these pairs."""
    return ("#\n" + "".join(f"{name}={value}\n" for name, value in pairs.items())).encode()
