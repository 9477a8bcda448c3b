"""Controlled shutdown: a broker hands its leaderships over before it stops, so that clients only see another
leader.

    shutting down    BrokerShuttingDown: from now on it enters no in-sync set and is not elected (KIP-841)
    leads            another in-sync replica on an active broker leads in the next leader epoch
    follows          it leaves every in-sync set that keeps another member: nobody waits for it any more
    leads alone      it leads on until another replica is in sync, for a limited time; if nobody else could
                     lead, to the end

The broker decides this for itself, by compare-and-set like any administrator's request, and again whenever
the metadata changes, until others lead all that they can. Then it stops serving clients (node.py).

Not here: a stop without it (the controller finds the registration gone: membership.py).
"""

import asyncio
import logging
from collections.abc import Collection
from typing import NamedTuple

from moldau.broker.controller.decision import Decision, Steps
from moldau.broker.controller.entries import Entries
from moldau.broker.controller.in_sync import with_in_sync, with_leader
from moldau.broker.controller.loop import DecisionLoop
from moldau.broker.controller.membership import RulesOf
from moldau.broker.metadata.changes import BrokerShuttingDown
from moldau.broker.metadata.image import Image, PartitionState
from moldau.broker.metadata.levels import CLUSTER_LEVEL
from moldau.common.core.timers import Timers

log = logging.getLogger("moldau.controller")

_AT_ONCE = 64


class Handover(NamedTuple):
    """What one decision handed over, and what is left: partitions whose other replicas are live, and not in
    sync yet. `example` is one of these."""

    led_by_others: int = 0
    left: int = 0
    example: str = ""


def hand_over(image: Image, node_id: int, rules: RulesOf) -> Steps[Handover]:
    """Decide on what broker `node_id` can hand over now."""
    broker = image.brokers.get(node_id)
    active = {each.node_id for each in image.active_brokers() if each.node_id != node_id}
    if broker is None or broker.fenced:
        return Decision([], Handover())
    moved = Entries()
    led_by_others = left = 0
    example = ""
    some_offline = any(each.offline for each in image.brokers.values())
    for name, topic in image.topics.items():
        yield
        rows: list[tuple[int, PartitionState]] = []
        for index, state in enumerate(topic.partitions):
            if index % _AT_ONCE == _AT_ONCE - 1:
                yield
            if state.leader != node_id and node_id not in state.isr:
                continue
            able = [node for node in state.replicas if node in active]
            if some_offline:
                able = [n for n in able if not image.brokers[n].has_offline(topic.topic_id, index)]
            after = _without(state, node_id, able, rules(name).min_isr)
            if after is not state:
                rows.append((index, after))
                led_by_others += after.leader != state.leader
            elif state.leader == node_id and able:
                left, example = left + 1, example or f"{name}-{index}"
        moved.add(name, rows)
    *earlier, last = moved.all()
    if not broker.shutting_down and image.level >= CLUSTER_LEVEL:
        earlier = [[BrokerShuttingDown(node_id)], *earlier]  # before anything could let it in again
    return Decision(last, Handover(led_by_others, left, example), earlier)


def _without(state: PartitionState, node_id: int, able: Collection[int], min_isr: int) -> PartitionState:
    """The partition without this broker in its in-sync set, led by another; `state` itself where nobody else
    can take it over now."""
    isr = tuple(node for node in state.isr if node != node_id)
    if state.leader != node_id:
        return with_in_sync(state, isr, min_isr) if isr else state
    successors = [node for node in able if node in isr]
    if not successors:
        return state
    changed = with_in_sync(state, isr, min_isr)
    return with_leader(changed, successors[0], min_isr)._replace(partition_epoch=state.partition_epoch + 1)


class ControlledShutdown:
    """One broker's way out. `heard` is called with each change of the metadata."""

    def __init__(self, node_id: int, loop: DecisionLoop, rules: RulesOf, timers: Timers) -> None:
        self._node_id = node_id
        self._loop = loop
        self._rules = rules
        self._timers = timers
        self._news = asyncio.Event()
        self._left = "the metadata store does not answer"

    def heard(self) -> None:
        """The metadata changed."""
        self._news.set()

    async def run(self, limit_ms: float) -> bool:
        """Hand over; returns whether others lead all that they can. It ends after `limit_ms`, whatever the
        store does."""
        work = asyncio.ensure_future(self._hand_over())

        def give_up() -> None:
            work.cancel()

        timer = self._timers.call_later(limit_ms, give_up)
        try:
            await asyncio.wait([work])
            if work.cancelled():
                log.warning(
                    "controlled shutdown: not all leaderships are handed over after %d ms (%s); stopping "
                    "without",
                    limit_ms,
                    self._left,
                )
                return False
            await work
        except Exception as error:
            log.warning("controlled shutdown: %s; stopping without it", error)
            return False
        finally:
            timer.cancel()
            work.cancel()
        return True

    async def _hand_over(self) -> None:
        told = False
        while True:
            self._news.clear()
            handover = await self._loop.decide(lambda image: hand_over(image, self._node_id, self._rules))
            if handover.led_by_others:
                log.info("controlled shutdown: others lead %d partitions now", handover.led_by_others)
            if not handover.left:
                return
            self._left = (
                f"{handover.left} partitions, such as {handover.example}, have no other replica in sync"
            )
            if not told:
                log.info("controlled shutdown: %s; waiting for one", self._left)
            told = True
            await self._news.wait()
