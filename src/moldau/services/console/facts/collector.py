"""Refreshes the snapshot in the background, a slice at a time; pages never ask the cluster for a list.

    each round     Metadata of all topics (1 request), offsets (2 for each SLICE_PARTITIONS partitions and
                   leader), groups (1 a coordinator; described and their offsets read, SLICE_GROUPS at a time)
    now and then   log directories (1 a broker), the brokers' own verdicts

A part that a broker does not answer ends the round, and the next begins soon with new metadata, since that
broker may be gone. After every slice others have their turn, and a round is followed by a pause of several
times its length, so that a large or slow cluster is not kept busy by being looked at. While nobody looks,
rounds are rarer: enough for the courses of lag and rates.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from moldau.client.admin.group_positions import positions_of_groups
from moldau.client.admin.groups import Group, Listed, describe_groups, list_all_groups
from moldau.client.admin.layout import Place
from moldau.client.admin.log_dirs import log_directories_if_told
from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.routing import metadata
from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError
from moldau.client.offsets import EARLIEST, LATEST
from moldau.common.protocol.errors import ErrorCode
from moldau.services.console.facts.broker_health import BrokerHealth
from moldau.services.console.facts.series import Series
from moldau.services.console.facts.snapshot import (
    Ends,
    GroupFacts,
    Snapshot,
    first_snapshot,
    group_with_offsets,
    with_ends,
    with_groups,
    with_sizes,
)
from moldau.services.console.facts.timeline import Event, Timeline, events_between
from moldau.services.console.facts.verdict import Verdict, verdict_of

log = logging.getLogger("moldau.console")

T = TypeVar("T")

SLICE_PARTITIONS = 2_000
SLICE_GROUPS = 200
IDLE_AFTER_SECONDS = 300.0
IDLE_PAUSE_SECONDS = 30.0
FIRST_WAIT_SECONDS = 20.0
SLOW_PARTS_SECONDS = 20.0
"""How often directories are looked at."""
_PAUSE_FACTOR = 4
_SOON_SECONDS = 2.0
_LOOK_SECONDS, _LOOKS_MAX = 0.02, 150
ALL_TOPICS = ""
"""The name of the course of all topics together: no topic has it."""


class Admin(Protocol):
    """Calls functions of a cluster in a thread, always the same one: it keeps what it knows of leaders."""

    async def call(self, work: Callable[[Cluster], T]) -> T:
        """KafkaProblem for every failure of the cluster."""
        ...


class Facts:
    """What is known; `start` begins the rounds in the running event loop."""

    def __init__(
        self,
        admin: Admin,
        health: BrokerHealth,
        refresh_seconds: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.timeline = Timeline()
        self.ends = Series()
        """The sum of the end offsets of each topic."""
        self.lags = Series()
        """The lag of each group."""
        self.told: Mapping[int, Mapping[str, Any]] = {}
        self.problem = ""
        """Why the last round failed."""
        self.changed = asyncio.Event()
        """Set, and replaced by a new one, when there is a newer snapshot."""
        self._admin = admin
        self._health = health
        self._refresh_seconds = refresh_seconds
        self._clock = clock
        self._snapshot: Snapshot | None = None
        self._judged: tuple[tuple[Snapshot, Mapping[int, Any], str], Verdict] | None = None
        self._first = asyncio.Event()
        self._wanted = asyncio.Event()
        self._looked_at = clock()
        self._cut_short = False
        self._rested_at = 0.0
        """When the pause after the last round is over; never while one is under way."""
        self._slow_parts_at = -SLOW_PARTS_SECONDS
        self._task: asyncio.Task[None] | None = None

    # -- for pages ----------------------------------------------------------------------------------------

    async def snapshot(self) -> Snapshot:
        """The newest; waits for the first. KafkaProblem: there is none yet."""
        self._looked_at = self._clock()
        if self._snapshot is None:
            self._wanted.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST_WAIT_SECONDS):
                    await self._first.wait()
        if self._snapshot is None:
            raise KafkaProblem(7, self.problem or "The cluster has not answered yet.")
        return self._snapshot

    @property
    def known(self) -> Snapshot | None:
        """The newest, if there is one."""
        return self._snapshot

    def verdict(self, snapshot: Snapshot) -> Verdict:
        """How the cluster is, and why; worked out once for each snapshot."""
        asked = (snapshot, self.told, self.problem)
        if self._judged is None or any(a is not b for a, b in zip(self._judged[0], asked, strict=True)):
            self._judged = asked, verdict_of(*asked)
        return self._judged[1]

    def refresh(self) -> None:
        """Something was changed: have a round soon."""
        self._wanted.set()

    async def refreshed(self, wait_seconds: float = 3.0) -> None:
        """Have a round, and wait for its first part for a while."""
        changed = self.changed
        self._wanted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds):
                await changed.wait()

    async def looked_for(self) -> None:
        """A name that is not known was asked for: have a round, as `refreshed`, but not before the pause that
        the last one earned. Pages of what is gone ask again and again, and would keep the cluster busy."""
        for _ in range(_LOOKS_MAX):
            if self._clock() >= self._rested_at:
                await self.refreshed()
                return
            await asyncio.sleep(_LOOK_SECONDS)

    # -- rounds ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            began, self._rested_at = self._clock(), math.inf
            self._wanted.clear()
            try:
                await self.round()
            except (KafkaProblem, ClientError) as problem:
                self._failed(str(problem))
            except Exception:
                log.exception("looking at the cluster failed: this is a bug")
                self._failed("looking at it failed: the console's log has the reason")
            took = self._clock() - began
            self._rested_at = began + (1 + _PAUSE_FACTOR) * took
            idle = self._clock() - self._looked_at > IDLE_AFTER_SECONDS
            pause = max(IDLE_PAUSE_SECONDS if idle else self._refresh_seconds, _PAUSE_FACTOR * took)
            if self._cut_short:
                pause = min(self._refresh_seconds, _SOON_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wanted.wait()

    def _failed(self, why: str) -> None:
        if why != self.problem:
            if not self.problem:
                self.timeline.add([Event(_now_ms(), "bad", f"The cluster does not answer: {why}")])
            log.warning("the cluster at hand does not answer: %s", why)
        self.problem = why
        self._tell()

    def _tell(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def _set(self, snapshot: Snapshot, events: Sequence[Event] = ()) -> None:
        self._snapshot = snapshot
        if self.problem:
            self.timeline.add([Event(snapshot.taken_at_ms, "good", "The cluster answers again")])
            self.problem = ""
        self.timeline.add(events)
        self._first.set()
        self._tell()

    async def round(self) -> None:
        """All parts once. KafkaProblem: the cluster does not answer."""
        before, self._cut_short = self._snapshot, True
        answer = await self._admin.call(metadata)
        snapshot, events = await asyncio.to_thread(_compared, answer, before)
        del answer
        self._set(snapshot, events)
        brokers = list(snapshot.brokers.values())
        self.told = await asyncio.to_thread(self._health.told, brokers)
        try:
            await self._measured(snapshot)
        except KafkaProblem as problem:
            log.info("what the cluster holds is not known anew: %s", problem)
        else:
            self._cut_short = False

    async def _measured(self, snapshot: Snapshot) -> None:
        """Offsets, sizes and groups. KafkaProblem: a broker does not answer."""
        snapshot = await self._with_ends(snapshot)
        self._set(snapshot)
        if self._clock() - self._slow_parts_at >= SLOW_PARTS_SECONDS:
            self._slow_parts_at = self._clock()
            sizes = await self._sizes(snapshot)
            if sizes is not None:
                snapshot = await asyncio.to_thread(with_sizes, snapshot, sizes)
                self._set(snapshot)
        before_groups, snapshot = snapshot, await self._with_groups(snapshot)
        self._set(snapshot, await asyncio.to_thread(events_between, before_groups, snapshot))

    async def _with_ends(self, snapshot: Snapshot) -> Snapshot:
        places = await asyncio.to_thread(snapshot.led)
        found: dict[Place, Ends] = {}
        for part in _slices(places, SLICE_PARTITIONS):
            try:
                found |= await self._admin.call(lambda cluster, part=part: _ends(cluster, part))  # type: ignore[misc]
            except KafkaProblem as problem:  # a topic that was deleted meanwhile, say: the next round has it
                if problem.error_code == ErrorCode.REQUEST_TIMED_OUT:
                    raise
                log.debug("offsets of %d partitions are not known: %s", len(part), problem)
                found |= {place: snapshot.ends[place] for place in part if place in snapshot.ends}
        return await asyncio.to_thread(self._summed, snapshot, found)

    def _summed(self, snapshot: Snapshot, found: Mapping[Place, Ends]) -> Snapshot:
        totals: dict[str, float] = {}
        for (topic, _), each in found.items():
            totals[topic] = totals.get(topic, 0) + each.end
        totals[ALL_TOPICS] = sum(totals.values())
        self.ends.add(_now_ms(), totals)
        return with_ends(snapshot, found, self.ends.latest_rates(totals))

    async def _sizes(self, snapshot: Snapshot) -> dict[str, int] | None:
        """The bytes of each topic; None if no broker tells."""
        sizes: dict[str, int] = {}
        told = False
        for broker in snapshot.brokers:
            try:
                directories = await self._admin.call(
                    lambda cluster, broker=broker: log_directories_if_told(cluster, broker)  # type: ignore[misc]
                )
            except KafkaProblem:
                continue
            for directory in directories:
                told = True
                for replica in directory.replicas:
                    sizes[replica.place[0]] = sizes.get(replica.place[0], 0) + replica.size_bytes
        return sizes if told else None

    async def _with_groups(self, snapshot: Snapshot) -> Snapshot:
        listed = [each for each in await self._admin.call(list_all_groups) if _is_shown(each)]
        found = [
            GroupFacts(
                each.group_id, each.state, each.type or "Classic", each.protocol_type, each.coordinator_id
            )
            for each in listed
        ]
        known = {each.group_id: each for each in found}
        for part in _slices(listed, SLICE_GROUPS):
            try:
                described, committed = await self._admin.call(
                    lambda cluster, part=part: _groups(cluster, part)  # type: ignore[misc]
                )
            except KafkaProblem as problem:
                if problem.error_code == ErrorCode.REQUEST_TIMED_OUT:
                    raise
                log.debug("%d groups are not known: %s", len(part), problem)
                for each in part:
                    if each.group_id in snapshot.groups:
                        known[each.group_id] = snapshot.groups[each.group_id]
                continue
            for each in part:
                known[each.group_id] = group_with_offsets(
                    known[each.group_id],
                    described.get(each.group_id),
                    committed.get(each.group_id, {}),
                    snapshot.ends,
                )
            await asyncio.sleep(0)
        self.lags.add(
            _now_ms(),
            {name: float(group.lag) for name, group in known.items() if group.lag is not None},
        )
        return await asyncio.to_thread(with_groups, snapshot, known.values())


def _compared(answer: Any, before: Snapshot | None) -> tuple[Snapshot, list[Event]]:
    """The next snapshot, and what happened since the one before."""
    snapshot = first_snapshot(answer, _now_ms(), before)
    return snapshot, events_between(before, snapshot) if before is not None else []


def _is_shown(listed: Listed) -> bool:
    return listed.protocol_type in ("", "consumer", "connect", "sr") or listed.type.lower() in ("consumer",)


def _ends(cluster: Cluster, places: Sequence[Place]) -> dict[Place, Ends]:
    starts = cluster.offsets(dict.fromkeys(places, EARLIEST))
    ends = cluster.offsets(dict.fromkeys(places, LATEST))
    return {place: Ends(starts[place], max(ends[place], starts[place])) for place in places if place in ends}


def _groups(
    cluster: Cluster, listed: Sequence[Listed]
) -> tuple[dict[str, Group], dict[str, dict[Place, int]]]:
    described = {each.group_id: each for each in describe_groups(cluster, listed)}
    return described, positions_of_groups(cluster, listed)


def _slices(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
