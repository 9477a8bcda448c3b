"""Puts cleaned segments in the place of their sources; a crash at any step leaves the old or the new.

A group of sources becomes one segment in four steps, all of them renames, one group after the other from the
oldest on:

    prepared   0.index.cleaned 0.log.cleaned         0.log 0.index  400.log 400.index
    committed  0.index.swap    0.log.swap            0.log 0.index  400.log 400.index
    retired    0.index.swap    0.log.swap            0.log.deleted ...  400.log.deleted ...
    finished   0.index         0.log                 (.deleted: removed after file.delete.delay.ms)

Of a segment's files `.log` comes last in every step. So `<base>.log.swap` alone says that the group counts,
and that all its other files are complete; as long as `<base>.log` is there as well, the other files without a
suffix are the source's, and once it is gone they are the new segment's. File systems bring names to the disk
in their order, so after a power cut some first part of these renames has happened. Recovery forgets what is
not committed and finishes what is:

* no `.log.swap`: the `.swap` and `.cleaned` files go, the sources are untouched;
* `.log.swap`: the sources that overlap it go (again: `.log` last), then its files take their names.

It cannot see the sources behind the cleaned segment's last batch, which therefore may stay. They do no harm:
that is the log as if the group had ended before them. Which is also why the oldest come first, since a later
group may have lost a tombstone of which an older one held the deleted value.

A `.cleaned` file that is never committed would make recovery believe that the swaps above it are not
committed (Kafka's rule, which we keep since it may be Kafka's left-overs that we find), so strays go first.

Not here: which sources, and whether they still are the log's (cleaner.py); writing the files (clean.py).
"""

import re
from collections.abc import Collection, Sequence

from moldau.broker.log.compaction.job import CLEANED_SUFFIX, CleanError, Group
from moldau.broker.log.files.segment import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    Segment,
    file_name,
)
from moldau.broker.log.log import Log
from moldau.broker.log.recovery.leftovers import LOG_LAST, SWAP_SUFFIX
from moldau.broker.log.state.transaction_index import DamagedIndex
from moldau.common.core.files import Files
from moldau.common.records.batch import NO_TIMESTAMP

_UNFINISHED = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex)\.(cleaned|swap)", re.ASCII)


def swap_in(
    files: Files, log: Log, sources: Sequence[Segment], groups: Sequence[Group], retired: list[str]
) -> None:
    """Replace `sources`, which are neighbours in the log, by what they have become.

    Adds to `retired` the names of the old files, now `.deleted`, to be removed after file.delete.delay.ms.
    CleanError when what was prepared cannot be used, OSError when the disk refuses; the groups before that
    one have been swapped then. When the disk refuses in the middle of a group, the log goes offline: what its
    directory holds now is for recovery to finish.
    """
    discard(files, log.directory, keep={group.base_offset for group in groups})
    by_base = {segment.base_offset: segment for segment in sources}
    for group in groups:
        old = [by_base[base] for base in group.sources]
        fresh = _prepared(files, log, group, old)
        _rename_all(files, log.directory, group.base_offset, CLEANED_SUFFIX, SWAP_SUFFIX)
        try:
            for segment in old:
                segment.close_descriptor()
                _retire(files, segment, retired)
            _rename_all(files, log.directory, group.base_offset, SWAP_SUFFIX, "")
            log.replace_segments(old, fresh)
        except OSError:
            log.writer.go_offline()
            raise


def discard(files: Files, directory: str, keep: Collection[int] = ()) -> None:
    """Remove what a clean has left, except for what it has prepared at these base offsets.

    In the directory of a log that is open nothing is called `.swap`, unless a commit has failed.
    """
    found = [name for name in files.list_directory(directory) if _UNFINISHED.fullmatch(name)]
    for name in sorted(found, key=lambda name: (name.endswith(CLEANED_SUFFIX), ".log." not in name)):
        if name.endswith(SWAP_SUFFIX) or int(name[:20]) not in keep:
            files.remove(f"{directory}/{name}")


def _prepared(files: Files, log: Log, group: Group, old: Sequence[Segment]) -> Segment:
    """The new segment, read from its `.cleaned` files; it will find them under their final names."""
    fresh = Segment(files, log.directory, group.base_offset, log.files.descriptors, old[-1].created_ms)
    path = fresh.path(LOG_SUFFIX) + CLEANED_SUFFIX
    size_bytes = files.file_size_bytes(path)
    if size_bytes != group.size_bytes:
        raise CleanError(f"{path} has {size_bytes} bytes, and should have {group.size_bytes}")
    indexes = (fresh.offset_index, fresh.time_index, fresh.transaction_index)
    for index in indexes:
        index.path += CLEANED_SUFFIX
    try:
        fresh.transaction_index.load(fresh.base_offset)
        if not (fresh.offset_index.load() and fresh.time_index.load()):
            raise CleanError(f"{path} has an index that cannot be one")
        newest = fresh.time_index.last()
    except DamagedIndex as error:
        raise CleanError(str(error)) from error
    for index in indexes:
        index.path = index.path.removesuffix(CLEANED_SUFFIX)
    if len(fresh.transaction_index) != group.aborted_count:
        raise CleanError(
            f"{path} has {len(fresh.transaction_index)} aborted transactions beside it, "
            f"and should have {group.aborted_count}"
        )
    fresh.size_bytes = fresh.synced_bytes = size_bytes
    if newest is not None and group.max_timestamp_ms != NO_TIMESTAMP:
        fresh.max_timestamp_ms = group.max_timestamp_ms
        fresh.max_timestamp_offset = fresh.base_offset + newest[1]
    return fresh


def _rename_all(files: Files, directory: str, base_offset: int, before: str, after: str) -> None:
    for suffix in LOG_LAST:
        path = f"{directory}/{file_name(base_offset, suffix)}"
        if files.exists(path + before):
            files.rename(path + before, path + after)


def _retire(files: Files, segment: Segment, retired: list[str]) -> None:
    for suffix in LOG_LAST:
        path = segment.path(suffix)
        if files.exists(path):
            files.rename(path, path + DELETED_SUFFIX)
            retired.append(path + DELETED_SUFFIX)
