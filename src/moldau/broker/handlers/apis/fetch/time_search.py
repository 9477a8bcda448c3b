"""Running a log's search by time without holding the event loop: in slices, large batches beside the loop.

Between two steps the partition may be deleted, lose its leader or its oldest segments. `still_answers` is
asked whether it is still to be searched; a search whose segments have changed begins anew.
"""

from collections.abc import Callable
from functools import partial

from moldau.broker.log.files.segment import CorruptSegment
from moldau.broker.log.log import TimestampAndOffset
from moldau.broker.log.reading.record_search import RecordSearch
from moldau.broker.log.reading.timestamps import (
    Found,
    LogChanged,
    Search,
    look_into,
    look_into_if_likely,
    look_into_if_short,
)
from moldau.broker.replication.partition import Partition
from moldau.common.core.side_worker import SideWorker
from moldau.common.core.slow_lane import Slices
from moldau.common.records.compression import UnpacksToMore
from moldau.common.records.unpack_budget import UnpackBudget


class Gone(Exception):
    """The partition is not to be searched here any more."""


async def run_search(
    begin: Callable[[], Search],
    still_answers: Callable[[], bool],
    slices: Slices,
    side_worker: SideWorker,
    budget: UnpackBudget,
) -> TimestampAndOffset | None:
    """The result of the search that `begin` makes; Gone, and whatever a step raises (OSError,
    CorruptSegment).
    """
    while True:
        try:
            return await _run(begin(), still_answers, slices, side_worker, budget)
        except LogChanged:
            await slices.next_slice()
            if not still_answers():
                raise Gone from None


async def offset_at(
    partition: Partition, timestamp_ms: int, slices: Slices, side_worker: SideWorker
) -> int | None:
    """The first offset of a partition that is led here with at least this timestamp; None: there is none, or
    it cannot be told."""
    leader_epoch, end_offset = partition.leader_epoch, partition.high_watermark
    try:
        found = await run_search(
            lambda: partition.log.offset_for_timestamp(timestamp_ms, end_offset),
            lambda: not partition.refusal(leader_epoch),
            slices,
            side_worker,
            UnpackBudget(),
        )
    except (Gone, OSError, CorruptSegment):
        return None
    return None if found is None else found.offset


async def _run(
    search: Search,
    still_answers: Callable[[], bool],
    slices: Slices,
    side_worker: SideWorker,
    budget: UnpackBudget,
) -> TimestampAndOffset | None:
    found: Found = None
    while True:
        try:
            step = search.send(found)
        except StopIteration as end:
            result: TimestampAndOffset | None = end.value
            return result
        found = None
        waited = False
        if step is not None:
            found, waited = await _look_into(step, side_worker, budget)
        if slices.spent():
            await slices.next_slice()
            waited = True
        if waited and not still_answers():
            raise Gone


async def _look_into(
    search: RecordSearch, side_worker: SideWorker, budget: UnpackBudget
) -> tuple[Found, bool]:
    """The result of one batch's search, and whether it was waited for."""
    if search.is_short:
        try:
            return look_into_if_short(search, budget), False
        except UnpacksToMore:
            pass  # more than its size and count let one think
    likely, to_the_end = partial(look_into_if_likely, search, budget), partial(look_into, search, budget)
    return await side_worker.run(likely, budget, to_the_end), True
