"""The `Host` of a simulated broker: virtual time, its machine's disk, a network in memory, a seed.

Work for threads runs on the one thread there is: what the loop is given at a later moment (sim_loop.py), what
code that may block runs in a pool at once, and a compaction whole, at a later moment.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from sim_loop import VirtualLoop
from sim_network import Network, ProcessNetwork
from sim_process import Process

from moldau.broker.host import Host, embedded_store
from moldau.broker.log.compaction.clean import clean
from moldau.broker.log.compaction.job import CleanError, CleanJob, CleanResult, OnProgress
from moldau.broker.metadata.store import MetadataStore
from moldau.broker.monitor.process import ProcessFacts
from moldau.common.core.files import Buffer
from moldau.common.core.slow_lane import SlowLane
from moldau.common.core.timers import LoopTimers
from moldau.common.core.workers import InlineExecutor, inline_pool
from moldau.common.settings.broker import BrokerSettings
from moldau.testing.simulated_files import SimulatedFiles

MakeStore = Callable[[Host, BrokerSettings, SlowLane], MetadataStore]

EPOCH_MS = 1_700_000_000_000
_TICK_SECONDS = 1e-5
_OPERATIONS = (
    "open", "close", "duplicate", "pread", "truncate", "size_bytes", "sync", "sync_directory", "exists",
    "list_directory", "is_directory", "file_size_bytes", "modified_ms", "set_modified_ms", "make_directory",
    "rename", "remove", "remove_tree", "lock", "free_bytes",
)  # fmt: skip
"""Of `moldau.common.core.files.Files`, but for writes."""


class VirtualClock:
    """The loop's time as a machine's clock."""

    def __init__(self, loop: VirtualLoop, skew_ms: int = 0) -> None:
        """`skew_ms`: how far it is ahead of the right time."""
        self._loop, self._skew_ms = loop, skew_ms

    def now_ms(self) -> int:
        return EPOCH_MS + self._skew_ms + int(self._loop.time() * 1000)

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1000


class TickingCounter:
    """A fine counter for measuring work: each look at it takes a moment, so that long work is cut."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._looks = 0

    def __call__(self) -> float:
        self._looks += 1
        return self._loop.time() + self._looks * _TICK_SECONDS


class ProcessFiles:
    """A machine's disk as one process has it: the dead change nothing, and writes are traced."""

    def __init__(self, disk: SimulatedFiles, process: Process, note: Callable[[str], None]) -> None:
        for name in _OPERATIONS:
            setattr(self, name, _guarded(getattr(disk, name), process))
        self._pwrite, self._note = _guarded(disk.pwrite, process), note

    def pwrite(self, fd: int, data: Buffer, position: int) -> int:
        self._note(f"writes {len(data)} bytes {zlib.crc32(data):08x} at {position}")
        return int(self._pwrite(fd, data, position))

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        return self.pwrite(fd, b"".join(buffers), position)


def _guarded(operation: Callable[..., Any], process: Process) -> Callable[..., Any]:
    def guarded(*args: Any, **named: Any) -> Any:
        process.must_live()
        return operation(*args, **named)

    return guarded


class CompactionBeside:
    """A `CleaningWorker` that cleans at a later moment, on the simulation's thread."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._canceled = False
        self.busy = False

    def run(
        self, job: CleanJob, on_progress: OnProgress, done: Callable[[CleanResult | Exception], None]
    ) -> None:
        if self.busy:
            raise RuntimeError("a job is running")
        self.busy, self._canceled = True, False

        def work() -> CleanResult | Exception:
            try:
                return clean(
                    self._host.files,
                    job,
                    on_progress,
                    lambda: self._canceled,
                    monotonic=self._host.seconds,
                    sleep=lambda seconds: None,
                )
            except (CleanError, OSError) as error:
                return error

        def ended(future: asyncio.Future[CleanResult | Exception]) -> None:
            self.busy = False
            done(future.result())

        self._host.loop.run_in_executor(None, work).add_done_callback(ended)

    def cancel(self) -> None:
        self._canceled = True

    def close(self) -> None:
        self._canceled = True


def make_host(
    loop: VirtualLoop,
    network: Network,
    disk: SimulatedFiles,
    process: Process,
    source: random.Random,
    process_id: int,
    *,
    skew_ms: int = 0,
    boot_id: str = "boot",
    metadata_store: MakeStore = embedded_store,
) -> Host:
    """What this process gets for one life."""

    def note(what: str) -> None:
        loop.trace.add(loop.time(), process.name, what)

    return Host(
        loop=loop,
        clock=VirtualClock(loop, skew_ms),
        timers=LoopTimers(loop),
        random=source,
        files=ProcessFiles(disk, process, note),  # type: ignore[arg-type]
        network=ProcessNetwork(network, process),
        workers=InlineExecutor(),  # the loop runs what it is given for them, later
        pool=inline_pool,
        open_files_max=100,
        process_id=process_id,
        seconds=TickingCounter(loop),
        thread_cpu_seconds=TickingCounter(loop),
        process_facts=lambda: ProcessFacts(0.0, None, None, None, None, 100),
        cleaning_worker=CompactionBeside,
        metadata_store=metadata_store,
        boot_id=lambda: boot_id,
    )
