"""The shards of one coordinator topic that this broker leads; routes each request to its shard.

    elected(index, leader epoch) ──> loading ──> serving ──> resigned(index)
                                        ^           │
                                        └───────────┘   an append's outcome is unknown

A shard belongs to one leader epoch. Elected in a later one, even without having resigned, this broker loads
the shard again: another broker may have led, and written, in between.

Not here: deciding, appending and answering (shard.py), reading the log back (loading.py), when this broker is
elected (election.py).
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from moldau.broker.coordinator.loading import Loader
from moldau.broker.coordinator.machine import CoordinatorLog, Machine
from moldau.broker.coordinator.result import Parked, Result
from moldau.broker.coordinator.shard import COMMIT_TIMEOUT_MS, Shard
from moldau.broker.coordinator.stall_guard import never
from moldau.common.core.clock import Clock
from moldau.common.core.timers import Timers
from moldau.common.protocol.errors import ErrorCode

R = TypeVar("R")
M = TypeVar("M", bound=Machine)


class CoordinatorRuntime(Generic[M]):
    """The shards of `topic` here. `make_state(index, leader_epoch)` returns an empty state; callers
    wait at least `commit_timeout_ms()` for the commit of what they asked for."""

    def __init__(
        self,
        topic: str,
        *,
        log: CoordinatorLog,
        make_state: Callable[[int, int], M],
        clock: Clock,
        timers: Timers,
        commit_timeout_ms: Callable[[], int] = lambda: COMMIT_TIMEOUT_MS,
        stalled: Callable[[], bool] = never,
    ) -> None:
        self._stalled = stalled
        self._commit_timeout_ms = commit_timeout_ms
        self.topic = topic
        self._coordinator_log = log
        self._make_state = make_state
        self._clock = clock
        self._timers = timers
        self._shards: dict[int, Shard[M]] = {}
        self._loader = Loader(topic, log)

    # Leadership.

    def elected(self, index: int, leader_epoch: int) -> None:
        """This broker leads partition `index` in `leader_epoch`: load its shard. A shard of an earlier epoch
        is given up first; one of this epoch, or a later one, stays."""
        shard = self._shards.get(index)
        if shard is not None:
            if leader_epoch <= shard.leader_epoch:
                return
            self.resigned(index)
        self._load(index, leader_epoch)

    def resigned(self, index: int, error_code: int = ErrorCode.NOT_COORDINATOR) -> None:
        """This broker leads partition `index` no longer: everyone who waits is answered with `error_code`."""
        shard = self._shards.pop(index, None)
        if shard is not None:
            shard.give_up(error_code)

    def stop(self) -> None:
        """The broker stops: give up all shards."""
        for index in self.partitions():
            self.resigned(index, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _load(self, index: int, leader_epoch: int) -> None:
        def reload(error_code: int) -> None:
            self.resigned(index, error_code)
            self._load(index, leader_epoch)

        shard = Shard(
            self.topic,
            index,
            leader_epoch,
            self._make_state(index, leader_epoch),
            log=self._coordinator_log,
            clock=self._clock,
            timers=self._timers,
            reload=reload,
            commit_timeout_ms=self._commit_timeout_ms(),
        )
        self._shards[index] = shard
        self._loader.load(shard)

    # Which shards are here.

    def partitions(self) -> list[int]:
        """The partitions that this broker was elected for, loaded or not."""
        return list(self._shards)

    def is_active(self, index: int) -> bool:
        """Whether the shard is loaded and serves."""
        shard = self._shards.get(index)
        return shard is not None and not shard.loading

    def loading(self) -> list[int]:
        """The partitions that are being loaded."""
        return [shard.index for shard in self._shards.values() if shard.loading]

    def states(self) -> Iterator[tuple[int, M]]:
        """The state of every shard that serves (uncommitted changes included)."""
        return ((shard.index, shard.state) for shard in list(self._shards.values()) if not shard.loading)

    def state(self, index: int) -> M | None:
        """The state of one shard, if it serves (uncommitted changes included)."""
        shard = self._shards.get(index)
        return None if shard is None or shard.loading else shard.state

    # Deciding.

    def decide(
        self,
        index: int,
        operation: Callable[[M, int], Result[R]],
        refuse: Callable[[int], R],
        parked: Parked[R] | None = None,
    ) -> "R | asyncio.Future[R]":
        """Run `operation(state, now_ms)`; return the response, or a future of it where it has to wait.

        `refuse(error_code)` builds the response for a shard that is not here, still loading, or cannot write.
        Whoever makes an operation that leaves its caller waiting for others passes the caller's `parked`.
        """
        shard = self._shards.get(index)
        if shard is None:
            return refuse(ErrorCode.NOT_COORDINATOR)
        if shard.loading:
            return refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self._stalled():
            return refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        response: R | asyncio.Future[R] = shard.decide(operation, refuse, parked)
        return response

    def submit(self, index: int, operation: Callable[[M, int], Result[None]]) -> None:
        """Run an operation that no caller waits for; a shard that does not serve ignores it."""
        shard = self._shards.get(index)
        if shard is not None and not shard.loading:
            shard.submit(operation(shard.state, self._clock.now_ms()))
