"""Finds the highest offset that a partition had reached, by all evidence on the disk.

An offset that was acknowledged must not be given to another record, even when the first one is lost: a
consumer that has read beyond it would never see the second. These may show a higher end than the log's own:

    recovery-point-offset-checkpoint    all below was on the disk; after a clean stop it is the end itself
    replication-offset-checkpoint       all below was committed
    names of .log, .index, .snapshot    the log had reached that offset when the file was made
    entries of the newest .index        the batches that they lead to
    leader-epoch-checkpoint             where the newest leader began
    whole batches behind a damaged one

None of these carries a checksum, so that an implausible value is ignored.
"""

from collections.abc import Iterable

from moldau.broker.log.files.index import OffsetIndex
from moldau.broker.log.files.segment import (
    INDEX_SUFFIX,
    RELATIVE_OFFSET_MAX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    file_name,
)
from moldau.common.core.files import Files

OFFSETS_LOST_MAX = 1 << 40
"""A hint that is further ahead of the log's end is damaged itself."""
_SUFFIXES = (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX)
_OFFSET_MAX = (1 << 63) - 1


def offset_named(name: str) -> int | None:
    """The offset that a file's name begins with, or None when it does not begin with one."""
    digits = name[:20]
    if len(digits) < 20 or not digits.isascii() or not digits.isdecimal() or int(digits) > _OFFSET_MAX:
        return None
    return int(digits)


def end_by_names(names: Iterable[str]) -> int:
    """The largest offset in the names of a partition's files."""
    found = (offset_named(name) for name in names if name.endswith(_SUFFIXES))
    return max((offset for offset in found if offset is not None), default=0)


def end_by_index(files: Files, directory: str, names: Iterable[str]) -> int:
    """The offset behind the last batch that the newest offset index knows, 0 where that is missing or
    implausible.
    """
    bases = [offset_named(name) for name in names if name.endswith(INDEX_SUFFIX)]
    base_offset = max((base for base in bases if base is not None), default=None)
    if base_offset is None:
        return 0
    index = OffsetIndex(files, f"{directory}/{file_name(base_offset, INDEX_SUFFIX)}")
    if not index.load():
        return 0
    last = index.last()
    if last is None or max(last) > RELATIVE_OFFSET_MAX:
        return 0
    return base_offset + last[0] + 1
