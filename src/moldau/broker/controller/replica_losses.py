"""Replicas that have lost records, or their whole log: they leave the in-sync set before anybody relies on
them.

A broker that stopped in order counts as complete, and so stays in its in-sync sets. But a log directory may
fail while it runs, and a folder, a segment or a disk may be missing at the next start. What it finds it says
itself, at the start before it registers, so that no partition is ever led by an empty log that was made in
the place of a full one:

    lost      the log is here, with less than its checkpoints promise, or it is missing and made again, empty:
              the replica leaves the in-sync set, and enters it again when it has caught up. The last one that
              is left leads on, with what there is
    offline   the log cannot be served: its directory has failed, it cannot be opened, or it is missing and
              nobody else has all: the replica neither leads nor is in sync, and there may be no leader, until
              the directory is back, or an administrator asks for an unclean election

`ReplicasOffline` holds the second kind, so that every later election knows. A replica whose log is missing is
made again, empty, as soon as another one leads; it is offline no more then. A partition with one replica is
left alone: nobody else could lead it.

Not here: finding them (replication/losses.py), brokers whose stop was not clean (membership.py).
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping

from moldau.broker.controller.decision import Decision, Steps
from moldau.broker.controller.entries import Entries
from moldau.broker.controller.in_sync import after_brokers
from moldau.broker.controller.loop import DecisionLoop
from moldau.broker.controller.membership import RulesOf
from moldau.broker.metadata.changes import ReplicasOffline
from moldau.broker.metadata.image import Image, PartitionState
from moldau.broker.metadata.levels import CLUSTER_LEVEL
from moldau.broker.metadata.store import NoSession, OutcomeUnknown
from moldau.common.core.timers import TimerHandle, Timers

log = logging.getLogger("moldau.controller")

_AT_ONCE = 64
_RETRY_DELAY_MS = 1_000

Replicas = Collection[tuple[str, int]]
"""Topic and partition of replicas on this broker."""


def replicas_lost(
    image: Image,
    node_id: int,
    lost: Replicas,
    offline: Replicas,
    rules: RulesOf,
    *,
    complete: bool,
    made_again: Replicas = (),
) -> Steps[int]:
    """Decide on replicas of broker `node_id`; answers how many partitions changed. `complete`: `offline` are
    all that are offline, else they are further ones, and those `made_again` are no longer.
    """
    broker = image.brokers.get(node_id)
    if broker is None:
        return Decision([], 0)
    found: dict[bytes, set[int]] = {}
    if not complete:
        found = {topic_id: set(indexes) for topic_id, indexes in broker.offline.items()}
    for name, index in offline:
        if name in image.topics:
            found.setdefault(image.topics[name].topic_id, set()).add(index)
    for name, index in made_again:
        if name in image.topics:
            found.get(image.topics[name].topic_id, set()).discard(index)
    now = {topic_id: tuple(sorted(found[topic_id])) for topic_id in sorted(found) if found[topic_id]}
    told = image.level >= CLUSTER_LEVEL and now != dict(broker.offline)
    able = image.active_brokers()
    moved, count = Entries(), 0
    affected = {*lost, *offline}
    for name in sorted({topic for topic, _ in affected}):
        topic = image.topics.get(name)
        if topic is None:
            continue
        rows: list[tuple[int, PartitionState]] = []
        for index, state in enumerate(topic.partitions):
            if index % _AT_ONCE == _AT_ONCE - 1:
                yield
            if (name, index) not in affected or len(state.replicas) < 2 or node_id not in state.replicas:
                continue
            live = {each.node_id for each in able if not each.has_offline(topic.topic_id, index)}
            if (name, index) in offline:
                live.discard(node_id)
            elif not broker.fenced:
                live.add(node_id)
            after = after_brokers(state, live, {node_id}, {node_id}, rules(name))
            if after is not state:
                rows.append((index, after))
                count += 1
        moved.add(name, rows)
        yield
    *earlier, last = moved.all()
    if told:
        earlier = [[ReplicasOffline(node_id, tuple(now.items()))], *earlier]  # before any other election
    return Decision(last, count, earlier)


class LossReports:
    """Reports replicas that went offline while the broker runs, or were made again, until the metadata has
    it."""

    def __init__(
        self, node_id: int, loop: DecisionLoop, rules: RulesOf, timers: Callable[[], Timers | None]
    ) -> None:
        self._node_id = node_id
        self._loop = loop
        self._rules = rules
        self._timers = timers
        self._due: dict[tuple[str, int], bool] = {}  # whether it is offline
        self._task: asyncio.Task[None] | None = None
        self._retry: TimerHandle | None = None

    def report(self, offline: Replicas) -> None:
        """These replicas of this broker are offline."""
        self._due.update(dict.fromkeys(offline, True))
        self._begin()

    def made_again(self, topic: str, index: int) -> None:
        """This replica, which was offline, is empty and follows."""
        self._due[topic, index] = False
        self._begin()

    def stop(self) -> None:
        """The broker stops."""
        self._due.clear()
        if self._retry is not None:
            self._retry.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        if self._due and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._report())

    async def _report(self) -> None:
        try:
            while self._due:
                due = dict(self._due)
                count = await self._loop.decide(lambda image, due=due: self._decide(image, due))  # type: ignore[misc]
                self._due = {key: now for key, now in self._due.items() if due.get(key) is not now}
                offline = sum(due.values())
                if offline:
                    log.warning("%d replicas here are offline: %d partitions changed for it", offline, count)
        except (NoSession, OutcomeUnknown, OSError) as error:
            self._try_later(error)
        except Exception as error:
            log.exception("replicas that are offline could not be reported")
            self._try_later(error)
        finally:
            self._task = None

    def _decide(self, image: Image, due: Mapping[tuple[str, int], bool]) -> Steps[int]:
        offline = [key for key, is_offline in due.items() if is_offline]
        again = [key for key, is_offline in due.items() if not is_offline]
        return replicas_lost(image, self._node_id, (), offline, self._rules, complete=False, made_again=again)

    def _try_later(self, error: Exception) -> None:
        timers = self._timers()
        if timers is not None:
            log.info("replicas that are offline are reported again later: %s", error)
            self._retry = timers.call_later(_RETRY_DELAY_MS, self._begin)
