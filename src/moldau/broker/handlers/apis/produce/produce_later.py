"""Goes on with a Produce request that cannot be handled in one turn of the loop.

There are two reasons: a batch whose records must be looked at for longer than the loop has (a worker thread
does it, appending/inspection.py), and more rows than fit a slice. The rest of the request is then appended
row by row, in order, and the connection's next frames wait behind a slot that blocks, so that the batches of
a producer reach the log in the order in which they were sent.

    row 1 appended | row 2 deferred ─ inspected ─ appended | row 3 ... ─ last row: the next frames go on
    answer         └─────────────────────────────────────────────── last row committed: it is sent

All of a request's inspections share one budget. If the connection is lost meanwhile, what is not yet appended
is dropped: its client has no answer, and sends it again. What happens to a partition meanwhile is looked up
before its batch is appended (`append_inspected`).
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from moldau.broker.handlers.apis.produce.produce_request import DeferredRow, PendingProduce, Rows
from moldau.broker.handlers.parts.exchange import Slot, kept
from moldau.common.core.measured import measured
from moldau.common.protocol.hot_produce import ProduceTopic
from moldau.common.records.unpack_budget import UnpackBudget

log = logging.getLogger("moldau.handlers")


class _Row(NamedTuple):
    key: bytes
    rows: Rows
    partition_index: int
    records: memoryview | bytes | None


_running: set["asyncio.Task[None]"] = set()  # the loop itself holds tasks only weakly


def go_on_later(
    request: PendingProduce,
    topics: Sequence[ProduceTopic],
    topic_at: int,
    at: int,
    deferred: DeferredRow | None,
) -> None:
    """Take the rows from `at` in topic `topic_at` on in later turns; before them, the deferred row.

    The records' bytes are kept here. `request.answers` has an entry for each topic up to `topic_at`.
    """
    request.verify()  # the views of what waits for a coordinator end with this call, too
    if deferred is not None:
        deferred.inspection.keep()
    if request.slot is None:
        request.slot = request.exchange.park(blocking=False)
    rest = list(_rest(request, topics, topic_at, at))
    work = _append_rest(request, rest, deferred)
    if request.limits is not None:
        work = measured(work, request.limits)
    task = asyncio.get_running_loop().create_task(work)
    barrier = request.exchange.park(blocking=True, on_lost=lambda: _drop(task))
    _running.add(task)
    task.add_done_callback(lambda done: _ended(done, request, barrier))


def _drop(task: "asyncio.Task[None]") -> None:
    task.cancel()


def _rest(request: PendingProduce, topics: Sequence[ProduceTopic], topic_at: int, at: int) -> Iterator[_Row]:
    for number in range(topic_at, len(topics)):
        key, partitions = topics[number]
        if number == len(request.answers):
            request.answers.append((key, []))
        rows = request.answers[number][1]
        for index, records in partitions[at:]:
            yield _Row(key, rows, index, None if records is None else kept(records))
        at = 0


async def _append_rest(request: PendingProduce, rest: Sequence[_Row], deferred: DeferredRow | None) -> None:
    broker = request.broker
    slices = broker.slow_lane.slices()
    budget = UnpackBudget()
    if deferred is not None:
        await request.inspect(deferred, budget)
    for key, rows, index, records in rest:
        if slices.spent():
            await slices.next_slice()
            request.now_ms = broker.clock.now_ms()
        view = None if records is None else memoryview(records)
        deferred = request.append_row(key, request.lookup.get(key), rows, index, view)
        if deferred is not None:
            await request.inspect(deferred, budget)
    request.verify()


def _ended(task: "asyncio.Task[None]", request: PendingProduce, barrier: Slot) -> None:
    _running.discard(task)
    if task.cancelled():
        return  # the connection is gone, or the broker stops
    error = task.exception()
    if error is not None:
        log.error("a Produce request failed: this is a bug", exc_info=error)
        request.exchange.close()
        return
    request.release()
    barrier.fill(None)
