"""A machine with a disk on which a whole broker runs, dies and starts again.

    kill         kill -9: what was written stays (the page cache lives on); connections end
    power_cut    the machine: unsynced pages and names survive by chance; peers are told nothing
    stop         in order

`die_after(steps)` makes the broker die at that step from now on, a step being a callback or a change of the
disk: between the write and the answer, in the middle of a checkpoint, during recovery.

The disk may be given faults (`disk.fault` of core/simulated_files.py is asked before each operation).
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from sim_invariants import Invariants
from sim_loop import VirtualLoop
from sim_network import Network, ProcessNetwork
from sim_process import Killed, Process

from moldau.core.files import Buffer
from moldau.core.settings.sources import from_texts
from moldau.core.simulated_files import SimulatedFiles
from moldau.core.timers import LoopTimers
from moldau.core.workers import InlineExecutor, inline_pool
from moldau.host import Host
from moldau.log.compaction.clean import clean
from moldau.log.compaction.job import CleanError, CleanJob, CleanResult, OnProgress
from moldau.monitor.process import ProcessFacts
from moldau.node import Node

EPOCH_MS = 1_700_000_000_000
PORT = 9092
DATA = "/data"
_TICK_SECONDS = 1e-5
_READS = frozenset(("read", "list"))


class VirtualClock:
    """The loop's time as a machine's clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return EPOCH_MS + int(self._loop.time() * 1000)

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
        for name in dir(SimulatedFiles):
            if not name.startswith("_") and name not in (
                "process_kill",
                "power_cut",
                "used_bytes",
                "pwritev",
            ):
                setattr(self, name, _guarded(getattr(disk, name), process))
        self._pwrite, self._note = self.pwrite, note
        self.pwrite = self._noted_pwrite

    def _noted_pwrite(self, fd: int, data: Buffer, position: int) -> int:
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


class Machine:
    """One broker's machine. The name is its host name; the broker listens on port 9092."""

    def __init__(
        self, name: str, loop: VirtualLoop, network: Network, source: random.Random, settings: dict[str, str]
    ) -> None:
        self.name = name
        self.settings = settings
        self.random = source
        self.disk = SimulatedFiles(source.getrandbits(32), now_ms=VirtualClock(loop).now_ms)
        self.disk.fault = self._before_disk
        self.disk_fault: Callable[[str, str], None] = lambda operation, path: None
        """Asked before each operation of the disk; it may raise OSError."""
        self.process: Process | None = None
        self.node: Node | None = None
        self.starts = 0
        self.deaths = 0
        self._loop = loop
        self._network = network
        self._steps_left: int | None = None
        self._dies_by_power = False
        self._unsettled: Callable[[], None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where clients find the broker."""
        return self.name, PORT

    @property
    def runs(self) -> bool:
        """Whether its broker's process lives."""
        return self.process is not None and self.process.alive

    # Starting

    def begin_start(self) -> asyncio.Future[bool]:
        """Start the broker; the future tells whether it runs: False when it died on the way. Whatever the
        node raises when it cannot start, the future raises.
        """
        assert not self.runs
        self._settle()
        self.starts += 1
        process = self.process = Process(self.name)
        process.before_callback = self._before_callback
        self.node, invariants = None, Invariants()
        process.after_callback = lambda: self.node is None or invariants.check(self.node)
        started: asyncio.Future[bool] = self._loop.create_future()
        process.on_kill.append(lambda: started.done() or started.set_result(False))

        async def start() -> None:
            self.node = Node(self._settings(), self._host(process))
            await self.node.start()

        def ended(task: asyncio.Task[None]) -> None:
            error = task.exception()
            if started.done():
                return
            if error is None:
                started.set_result(True)
            else:
                started.set_exception(error)
                self._gone(process)

        task = self._loop.create_task(start(), context=process.context())
        task.add_done_callback(ended)
        return started

    async def start(self) -> None:
        """Start the broker, and wait until it serves; it must not die meanwhile."""
        assert await self.begin_start(), f"{self.name} died while it started"

    def _settings(self) -> Any:
        told = {
            "node.id": str(sum(self.name.encode())),
            "listeners": f"PLAINTEXT://{self.name}:{PORT}",
            "log.dirs": DATA,
            "moldau.http.listener": "",
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "2",
            "group.initial.rebalance.delay.ms": "0",
        }
        return from_texts(told | self.settings)

    def _host(self, process: Process) -> Host:
        loop, draw = self._loop, random.Random(f"{self.random.getrandbits(64)}")
        return Host(
            loop=loop,
            clock=VirtualClock(loop),
            timers=LoopTimers(loop),
            random=draw,
            files=ProcessFiles(  # type: ignore[arg-type]
                self.disk, process, lambda what: loop.trace.add(loop.time(), self.name, what)
            ),
            network=ProcessNetwork(self._network, process),
            workers=InlineExecutor(),  # the loop runs what it is given for them, later
            pool=inline_pool,
            open_files_max=100,
            process_id=self.starts,
            seconds=TickingCounter(loop),
            thread_cpu_seconds=TickingCounter(loop),
            process_facts=lambda: ProcessFacts(0.0, None, None, None, None, 100),
            cleaning_worker=CompactionBeside,
        )

    # Ending

    async def stop(self) -> None:
        """In order, as after SIGTERM."""
        process, node = self.process, self.node
        assert process is not None
        assert node is not None
        stopping = self._loop.create_task(node.stop(), context=process.context())
        while not stopping.done() and process.alive:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        if process.alive:
            stopping.result()
            self._gone(process)

    def _gone(self, process: Process) -> None:
        """The process has ended by itself."""
        process.kill()
        self._network.process_killed(process)
        self.disk.process_kill()

    def kill(self) -> None:
        """kill -9."""
        self._die(power=False)
        self._settle()

    def power_cut(self) -> None:
        """The machine stops, and may be started again."""
        self._die(power=True)
        self._settle()

    def die_after(self, steps: int | None, *, power: bool = False) -> None:
        """Die at this step from now on; None: not any more."""
        self._steps_left, self._dies_by_power = steps, power

    def _die(self, *, power: bool) -> None:
        if not self.runs:
            return
        process = self.process
        assert process is not None
        self._loop.trace.add(self._loop.time(), self.name, "loses power" if power else "is killed")
        self._steps_left = None
        self.deaths += 1

        def settle() -> None:
            if power:
                self._network.vanish(process)
                self.disk.power_cut()
            else:
                self._network.process_killed(process)
                self.disk.process_kill()

        self._unsettled = settle
        process.kill()

    def _settle(self) -> None:
        """What a death leaves on the disk and in the network; once the callback that died is through."""
        settle, self._unsettled = self._unsettled, None
        if settle is not None:
            settle()

    def _step(self) -> bool:
        """Count a step; whether the broker died of it."""
        if self._steps_left is None:
            return False
        self._steps_left -= 1
        if self._steps_left >= 0:
            return False
        self._die(power=self._dies_by_power)
        return True

    def _before_callback(self) -> None:
        if self._step():
            self._settle()

    def _before_disk(self, operation: str, path: str) -> None:
        self._loop.trace.add(self._loop.time(), self.name, f"{operation} {path}")
        if operation not in _READS and self._step():
            # The disk still has to cut the write that dies with the process.
            self._loop.call_soon(self._settle, context=contextvars.Context())
            raise Killed(self.name)
        self.disk_fault(operation, path)


def disk_full(operation: str, path: str) -> None:
    """A `disk_fault`: nothing more can be written."""
    if operation in ("write", "create", "make_directory"):
        raise OSError(errno.ENOSPC, "no space left on device", path)
