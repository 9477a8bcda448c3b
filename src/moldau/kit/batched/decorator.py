"""The decorator, and the object that takes the function's place.

The function runs in its caller, and its exceptions are the caller's; only what it returns is queued.
Producer, thread and spool are made by the first call, so that importing a module costs nothing.

*Exit*: at the interpreter's exit what waits is sent, for at most `exit_seconds`. SIGTERM ends Python without
that; `exit_on_sigterm()` turns it into an exit. *Fork*: the child begins with an empty queue and makes its
own producer; what waits is the parent's. A spool belongs to one process: the child's first call raises
SpoolLocked.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import inspect
import logging
import os
import signal
import sys
import threading
import types
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast

from moldau.kit.batched.buffer import (
    BLOCK,
    DROP_OLD,
    WHEN_FULL,
    Buffer,
    Closed,
    MemoryBuffer,
    never,
)
from moldau.kit.batched.record import records_of
from moldau.kit.batched.sender import Sender, Stats
from moldau.kit.batched.spooled import SpooledBuffer
from moldau.kit.sending import Outgoing

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger("moldau.kit.batched")

RESULTS, CALLS = "results", "calls"
_everything: weakref.WeakSet[Batched[Any, Any]] = weakref.WeakSet()
_worker_pid = 0
_of_the_parent: list[object] = []
"""After a fork: the parent's producers and buffers, which the child must neither use nor destroy."""


def batched(
    topic: str,
    size: int = 500,
    seconds: float = 1.0,
    *,
    bootstrap_servers: str = "",
    config: Mapping[str, Any] | None = None,
    of: str = RESULTS,
    full: str = BLOCK,
    queue_max: int = 10_000,
    spool: str | os.PathLike[str] | None = None,
    spool_bytes: int = 1 << 30,
    durable: bool = False,
    retries: int | None = None,
    give_up_seconds: float | None = None,
    exit_seconds: float = 30.0,
    on_drop: Callable[[Outgoing, str], None] | None = None,
) -> Callable[[Callable[P, R]], Batched[P, R]]:
    """Send what a function returns to `topic`, `size` records at a time or what there is after `seconds`.

    bootstrap_servers  else MOLDAU_BOOTSTRAP, else 127.0.0.1:9092; `config` has more settings of librdkafka
    of                 "results", or "calls": the arguments by name, as a JSON object
    full               "block", "raise" (BatchFull), "drop_new" or "drop_old" (not with a spool), when
                       `queue_max` records or `spool_bytes` bytes wait
    spool, durable     a folder where records wait; `durable`: a call returns when its record is synced
    retries            how often what the broker refuses is sent again; None: until it is taken
    give_up_seconds    how long a broker may be away; None: for ever
    on_drop            called for each record that is dropped, in the thread that drops it
    """
    if of not in (RESULTS, CALLS):
        raise ValueError(f"of={of!r}: write {RESULTS!r} or {CALLS!r}")
    if full not in WHEN_FULL or (spool is not None and full == DROP_OLD):
        raise ValueError(f"full={full!r}: write one of {', '.join(WHEN_FULL)} (drop_old not with a spool)")
    if size < 1 or seconds < 0 or queue_max < 1:
        raise ValueError("size and queue_max must be at least 1, seconds at least 0")
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap_servers or os.environ.get("MOLDAU_BOOTSTRAP", "127.0.0.1:9092"),
        "enable.idempotence": True,
        "linger.ms": 5,
        "message.timeout.ms": 0 if give_up_seconds is None else max(1, int(give_up_seconds * 1000)),
        "topic.metadata.propagation.max.ms": 5000,
        "logger": logging.getLogger("moldau.kit.batched.client"),
        **(config or {}),
    }
    if give_up_seconds is not None and retries is None:
        retries = 0

    def decorate(function: Callable[P, R]) -> Batched[P, R]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__qualname__} yields: return a list, each of which is a record")

        def make_buffer(drop: Callable[[Outgoing, str], None]) -> Buffer:
            if spool is None:
                return MemoryBuffer(max(queue_max, size), full, drop)
            return SpooledBuffer(topic, Path(spool), spool_bytes, full, drop, durable=durable)

        def make_sender(buffer: Buffer, stats: Stats, drop: Callable[[Outgoing, str], None]) -> Sender:
            return Sender(buffer, settings, stats, drop, size=size, seconds=seconds, retries=retries)

        return Batched(
            function,
            topic,
            make_buffer,
            make_sender,
            of_calls=of == CALLS,
            exit_seconds=exit_seconds,
            on_drop=on_drop,
        )

    return decorate


class Batched(Generic[P, R]):
    """Called as the function it replaces. `stats` counts, `flush` waits, `close` ends."""

    def __init__(
        self,
        function: Callable[P, R],
        topic: str,
        make_buffer: Callable[[Callable[[Outgoing, str], None]], Buffer],
        make_sender: Callable[[Buffer, Stats, Callable[[Outgoing, str], None]], Sender],
        *,
        of_calls: bool,
        exit_seconds: float,
        on_drop: Callable[[Outgoing, str], None] | None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.stats = Stats()
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function)
        self._signature = inspect.signature(function) if of_calls else None
        self._topic = topic
        self._make_buffer = make_buffer
        self._make_sender = make_sender
        self._exit_seconds = exit_seconds
        self._on_drop = on_drop
        self._starting = threading.Lock()
        self._sender: Sender | None = None
        self._counting = threading.Lock()
        _everything.add(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._is_async:
            return cast("R", self._call_async(*args, **kwargs))
        returned = self._function(*args, **kwargs)
        records = self._records(returned, args, kwargs)
        if records:
            self._put(records)
        return returned

    def _put(self, records: list[Outgoing], given_up: Callable[[], bool] = never) -> None:
        while True:
            try:
                self._buffer().put(records, given_up)
                return
            except Closed:  # `close` runs in another thread; `_buffer` waits for its end
                continue

    async def _call_async(self, *args: Any, **kwargs: Any) -> Any:
        returned = await cast("Any", self._function(*args, **kwargs))
        records = self._records(returned, args, kwargs)
        if records:
            sender = self._sender
            if sender is None or isinstance(sender.buffer, SpooledBuffer):  # starts, or writes to the disk
                await self._put_in_thread(records)
            else:
                with contextlib.suppress(Closed):
                    if sender.buffer.try_put(records):
                        return returned
                await self._put_in_thread(records)
        return returned

    async def _put_in_thread(self, records: list[Outgoing]) -> None:
        cancelled = threading.Event()
        try:
            await asyncio.to_thread(self._put, records, cancelled.is_set)
        finally:
            cancelled.set()  # a thread that waited for room for ever would hold up the program's exit

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """A decorated method is bound as any function is."""
        return self if instance is None else types.MethodType(self, instance)

    def _records(self, returned: object, args: Any, kwargs: Any) -> list[Outgoing]:
        if self._signature is None:
            return records_of(self._topic, returned)
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return records_of(self._topic, dict(bound.arguments))

    def _buffer(self) -> Buffer:
        sender = self._sender
        if sender is None:
            with self._starting:
                sender = self._sender
                if sender is None:
                    buffer = self._make_buffer(self._drop)
                    sender = self._make_sender(buffer, self.stats, self._drop)
                    sender.start()
                    self._sender = sender
                    _close_at_a_workers_end()
        return sender.buffer

    def _drop(self, record: Outgoing, reason: str) -> None:
        with self._counting:
            self.stats.dropped[reason] += 1
        if self._on_drop is not None:
            try:
                self._on_drop(record, reason)
            except Exception:
                log.exception("on_drop failed")

    @property
    def waiting(self) -> int:
        """How many records are not sent yet."""
        sender = self._sender
        return sender.buffer.waiting() if sender is not None else 0

    def close(self, seconds: float | None = None) -> int:
        """Send what waits, for at most so long (else `exit_seconds`); returns how many records were not sent.

        They are lost, or stay in the spool for the next process. The next call begins anew.
        """
        with self._starting:  # calls meanwhile wait, then begin anew: the order stays
            sender, self._sender = self._sender, None
            if sender is None:
                return 0
            seconds = self._exit_seconds if seconds is None else seconds
            sender.stop(seconds)
            sender.join(seconds + 5)
            left = sender.buffer.waiting()
        if left and isinstance(sender.buffer, MemoryBuffer):
            with self._counting:
                self.stats.dropped["exit"] += left
            log.error("%s: %d records could not be sent and are lost", self._topic, left)
        return left

    flush = close
    """The same: what waits is sent now, and the next call begins anew."""

    def _after_fork(self) -> None:
        sender, self._sender = self._sender, None
        self._starting, self._counting = threading.Lock(), threading.Lock()
        self.stats = Stats()
        if sender is not None:
            _of_the_parent.append(sender)
            if isinstance(sender.buffer, SpooledBuffer):
                sender.buffer.spool.forget()


def _close_everything() -> None:
    for each in list(_everything):
        each.close()


def _after_fork_in_child() -> None:
    for each in list(_everything):
        each._after_fork()


def _close_at_a_workers_end() -> None:
    """Workers of multiprocessing end without the handlers of atexit."""
    global _worker_pid
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _worker_pid == os.getpid():
        return
    from multiprocessing import util

    _worker_pid = os.getpid()
    util.Finalize(None, _close_everything, exitpriority=0)


atexit.register(_close_everything)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def exit_on_sigterm() -> None:
    """Let SIGTERM end the program as sys.exit does, so that what waits is sent. Call it in the main thread; a
    handler that the program has already stays.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
