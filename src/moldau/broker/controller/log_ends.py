"""After a loss of power everywhere: the replica with the longest log of the newest leader epoch leads.

While nobody leads a partition, and each of its in-sync and eligible replicas is on a machine that has lost
power since, none is known to have every committed record (`PartitionState.doubtful`). What is left is on one
of them:

    all doubtful replicas are there    the one whose last record has the newest leader epoch leads, and of
                                       those the longest; the others follow, and truncate what it lacks
    one is missing                     it may have the longest log: the partition waits for it
    an administrator says that it is   (ElectLeaders, unclean) the same among those that are there
    gone for good

Every broker tells the ends of its doubtful replicas in the metadata (`LogEndsTold`), with the partition's
leader epoch: they cannot change while nobody leads, and what was told before a later election, or by an
earlier process of the broker, does not count. So the controller asks nobody, and the next one knows as much.

Not here: the rule itself (in_sync.py), when it is applied (membership.py, election.py).
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import NamedTuple

from moldau.broker.controller.decision import Decision, Steps
from moldau.broker.controller.in_sync import LogEnds
from moldau.broker.controller.loop import DecisionLoop
from moldau.broker.metadata.changes import (
    BrokerRegistered,
    Change,
    LogEndsTold,
    PartitionChanged,
    PartitionsChanged,
)
from moldau.broker.metadata.image import NO_LEADER, Image, LogEnd, PartitionState
from moldau.broker.metadata.levels import LOG_ENDS_LEVEL
from moldau.broker.metadata.store import NoSession, OutcomeUnknown
from moldau.common.core.timers import TimerHandle, Timers

log = logging.getLogger("moldau.controller")

_AT_ONCE = 64
_RETRY_DELAY_MS = 1_000
_MISSING_DELAY_MS = 5_000

EndOf = Callable[[str, bytes, int], tuple[int, int] | None]
"""From a partition (name, topic id, index) to the leader epoch of the last record in this broker's log, and
the log end offset; None: the log is not here, or cannot be read."""
ToldOfTopic = dict[int, dict[int, LogEnd]]
"""By partition and broker."""


class Told(NamedTuple):
    """How many ends are new, and for how many partitions the log may be opened later (its disk is full)."""

    new: int = 0
    missing: int = 0


def told_ends(image: Image, but: Collection[int] = ()) -> Generator[None, None, dict[bytes, ToldOfTopic]]:
    """What brokers have told, but those in `but`, by topic id; made in steps, because after a loss of power
    it is a row for each replica of the cluster."""
    found: dict[bytes, ToldOfTopic] = {}
    for node_id, broker in image.brokers.items():
        if node_id in but:
            continue
        for topic_id, rows in broker.log_ends.items():
            of_topic = found.setdefault(topic_id, {})
            yield
            for count, row in enumerate(rows, start=1):
                if count % _AT_ONCE == 0:
                    yield
                of_topic.setdefault(row.partition, {})[node_id] = row
    return found


def valid_ends(state: PartitionState, told: Mapping[int, LogEnd] | None) -> LogEnds:
    """What was told of this partition since it last had a leader."""
    if not told:
        return {}
    return {
        node: (row.log_epoch, row.end_offset)
        for node, row in told.items()
        if row.asked_epoch == state.leader_epoch
    }


def tell_ends(image: Image, node_id: int, end_of: EndOf) -> Steps[Told]:
    """Decide on what broker `node_id` tells."""
    broker = image.brokers.get(node_id)
    if broker is None or image.level < LOG_ENDS_LEVEL:
        return Decision([], Told())
    found: dict[bytes, tuple[LogEnd, ...]] = {}
    new = missing = 0
    for name, topic in image.topics.items():
        yield
        rows = []
        known = set(broker.log_ends.get(topic.topic_id, ()))
        for index, state in enumerate(topic.partitions):
            if index % _AT_ONCE == _AT_ONCE - 1:
                yield
            if not _is_asked(state, node_id):
                continue
            end = end_of(name, topic.topic_id, index)
            if end is not None:
                rows.append(LogEnd(index, state.leader_epoch, *end))
                new += rows[-1] not in known
            elif not broker.has_offline(topic.topic_id, index):
                missing += 1
        if rows:
            found[topic.topic_id] = tuple(rows)
    if new or (broker.log_ends and not found):
        return Decision([LogEndsTold(node_id, tuple(found.items()))], Told(new, missing))
    return Decision([], Told(0, missing))


def _is_asked(state: PartitionState, node_id: int) -> bool:
    return state.leader == NO_LEADER and node_id in state.doubtful


class LogEndReports:
    """Tells the ends of this broker's doubtful replicas, until the metadata has them."""

    def __init__(self, node_id: int, loop: DecisionLoop, timers: Callable[[], Timers | None]) -> None:
        self._node_id = node_id
        self._loop = loop
        self._timers = timers
        self._end_of: EndOf | None = None
        self._due = False
        self._task: asyncio.Task[None] | None = None
        self._retry: TimerHandle | None = None

    def begin(self, end_of: EndOf) -> None:
        """This broker's logs are open, and it is registered."""
        self._end_of = end_of
        self._wake()

    def heard(self, image: Image, changes: Sequence[Change]) -> None:
        """The metadata changed."""
        if self._end_of is None or image.level < LOG_ENDS_LEVEL:
            return
        broker = image.brokers.get(self._node_id)
        told = bool(broker is not None and broker.log_ends)
        if any(self._concerns(each, told) for each in changes):
            self._wake()

    def _concerns(self, change: Change, told: bool) -> bool:
        if isinstance(change, PartitionsChanged):
            return told or any(self._node_id in state.doubtful for _, state in change.partitions)
        if isinstance(change, PartitionChanged):
            return told or self._node_id in change.state.doubtful
        return isinstance(change, BrokerRegistered) and change.node_id == self._node_id

    def stop(self) -> None:
        """The broker stops."""
        self._end_of = None
        if self._retry is not None:
            self._retry.cancel()
        if self._task is not None:
            self._task.cancel()

    def _wake(self) -> None:
        self._due = self._end_of is not None
        if self._due and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        try:
            while self._due and self._end_of is not None:
                self._due, end_of = False, self._end_of
                told = await self._loop.decide(
                    lambda image, end_of=end_of: tell_ends(image, self._node_id, end_of)  # type: ignore[misc]
                )
                if told.new:
                    log.warning(
                        "nobody leads %d partitions whose machines have all lost power: told where their "
                        "logs end here",
                        told.new,
                    )
                if told.missing and self._end_of is not None:
                    self._look_again(_MISSING_DELAY_MS)
        except (NoSession, OutcomeUnknown, OSError) as error:
            self._try_later(error)
        except Exception as error:
            log.exception("the ends of logs could not be told")
            self._try_later(error)
        finally:
            self._task = None

    def _try_later(self, error: Exception) -> None:
        log.info("the ends of logs are told again later: %s", error)
        self._look_again(_RETRY_DELAY_MS)

    def _look_again(self, delay_ms: float) -> None:
        timers = self._timers()
        if timers is not None:
            if self._retry is not None:
                self._retry.cancel()
            self._retry = timers.call_later(delay_ms, self._wake)
