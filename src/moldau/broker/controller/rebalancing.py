"""Gives leadership back to preferred replicas (auto.leader.rebalance.enable).

After a broker was away, others lead its partitions, and it leads nothing. The elected controller looks every
`leader.imbalance.check.interval.seconds`: of the partitions that prefer a broker (their first replica), how
many does another one lead? Where that is more than `leader.imbalance.per.broker.percentage`, the preferred
replica is elected, if it is active and in sync. Others lead on: nothing becomes unavailable by this.

Not here: an administrator's ElectLeaders (election.py), moving replicas (reassignment.py).
"""

import asyncio
import logging
from collections.abc import Callable, Generator

from moldau.broker.controller.decision import Decision, Steps
from moldau.broker.controller.entries import Entries
from moldau.broker.controller.in_sync import with_leader
from moldau.broker.controller.loop import DecisionLoop
from moldau.broker.controller.membership import RulesOf
from moldau.broker.metadata.image import NO_LEADER, Image, PartitionState
from moldau.broker.metadata.store import ControllerFenced, NoSession, OutcomeUnknown
from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.settings.broker import BrokerSettings

log = logging.getLogger("moldau.controller")

_AT_ONCE = 64


def rebalance_leaders(image: Image, percentage: int, rules: RulesOf) -> Steps[dict[int, int]]:
    """Decide on elections of preferred replicas; answers how many leaderships each broker gets back."""
    counts = yield from _counts(image)
    uneven = {node for node, (all_of_it, away) in counts.items() if away * 100 > percentage * all_of_it}
    back: dict[int, int] = {}
    moved = Entries()
    if not uneven:
        return Decision([], back)
    for name, topic in image.topics.items():
        yield
        rows: list[tuple[int, PartitionState]] = []
        for index, state in enumerate(topic.partitions):
            if index % _AT_ONCE == _AT_ONCE - 1:
                yield
            preferred = state.replicas[0]
            if (
                preferred in uneven
                and state.leader not in (NO_LEADER, preferred)
                and preferred in state.isr
                and not image.brokers[preferred].has_offline(topic.topic_id, index)
            ):
                rows.append((index, with_leader(state, preferred, rules(name).min_isr)))
                back[preferred] = back.get(preferred, 0) + 1
        moved.add(name, rows)
    *earlier, last = moved.all()
    return Decision(last, back, earlier)


def _counts(image: Image) -> Generator[None, None, dict[int, tuple[int, int]]]:
    """For each active broker: the partitions that prefer it, and those of them that another one leads."""
    counts = {broker.node_id: (0, 0) for broker in image.active_brokers()}
    for topic in image.topics.values():
        yield
        for index, state in enumerate(topic.partitions):
            if index % _AT_ONCE == _AT_ONCE - 1:
                yield
            preferred = state.replicas[0]
            if preferred in counts:
                all_of_it, away = counts[preferred]
                counts[preferred] = (all_of_it + 1, away + (state.leader not in (NO_LEADER, preferred)))
    return counts


class Rebalancing:
    """Looks for uneven leadership, as long as this broker is the controller."""

    def __init__(self, loop: DecisionLoop, rules: RulesOf, settings: Callable[[], BrokerSettings]) -> None:
        self._loop = loop
        self._rules = rules
        self._settings = settings
        self._timers: Timers | None = None
        self._timer: TimerHandle | None = None
        self._epoch: int | None = None
        self._task: asyncio.Task[None] | None = None

    def seat_changed(self, controller_epoch: int | None, timers: Timers | None) -> None:
        """This broker became the controller, or (None) is it no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._epoch, self._timers = controller_epoch, timers
        self._wait()

    def _wait(self) -> None:
        settings = self._settings()
        if self._epoch is None or self._timers is None or not settings.auto_leader_rebalance_enable:
            return
        interval_ms = settings.leader_imbalance_check_interval_seconds * 1_000
        self._timer = self._timers.call_later(interval_ms, self._look)

    def _look(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self.rebalance())

    async def rebalance(self) -> None:
        """Decide now, and look again after the interval."""
        epoch = self._epoch
        if epoch is None:
            return
        percentage = self._settings().leader_imbalance_per_broker_percentage
        try:
            back = await self._loop.decide(
                lambda image: rebalance_leaders(image, percentage, self._rules), controller_epoch=epoch
            )
        except (ControllerFenced, NoSession) as error:
            log.info("preferred leaders are not elected: %s", error)
        except OutcomeUnknown as error:
            log.info("preferred leaders may have been elected; looking again after the interval: %s", error)
        except Exception:
            log.exception("preferred leaders could not be elected; trying again after the interval")
        else:
            for node_id in sorted(back):
                log.info("broker %d leads %d partitions again that prefer it", node_id, back[node_id])
        if self._epoch == epoch and self._timer is None:
            self._wait()
