"""A machine with a disk on which a whole broker runs, dies and starts again.

    kill         kill -9: what was written stays (the page cache lives on); connections end
    power_cut    the machine: unsynced pages and names survive by chance; peers are told nothing
    stop         in order
    pause        SIGSTOP: time passes, and the broker does nothing

`die_after(steps)` makes the broker die at that step from now on, a step being a callback or a change of the
disk: between the write and the answer, in the middle of a checkpoint, during recovery.

`disk_fault` is asked before each operation of the disk (testing/simulated_files.py), and may raise OSError.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import random
from collections.abc import Callable
from typing import Any

from sim_host import VirtualClock, make_host
from sim_invariants import Invariants
from sim_loop import VirtualLoop
from sim_network import Network
from sim_process import Killed, Process

from moldau.broker.host import embedded_store
from moldau.broker.metadata.store import MetadataStore
from moldau.broker.node import Node
from moldau.common.settings.sources import from_texts
from moldau.testing.simulated_files import SimulatedFiles

PORT = 9092
DATA = "/data"
_READS = frozenset(("read", "list"))


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
        self.store_for: Callable[[Process], MetadataStore] | None = None
        """Makes the broker's access to a cluster's metadata store, for one life; None: one of its own."""
        self.skew_ms = 0
        """How far its clock is ahead."""
        self.after_callback: Callable[[], None] = lambda: None
        """What else must hold after each callback of the broker."""
        self.may_lose: Callable[[], bool] = lambda: False
        """Whether an unclean election may lose committed records."""
        self.boots = 1
        """How often the machine itself was started: each loss of power ends one."""
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
        store = self.store_for
        process = self.process = Process(self.name)
        process.before_callback = self._before_callback
        self.node, invariants = None, Invariants(self.may_lose)
        process.after_callback = lambda: self._check(invariants)
        draw = random.Random(self.random.getrandbits(64))
        host = make_host(
            self._loop,
            self._network,
            self.disk,
            process,
            draw,
            self.starts,
            skew_ms=self.skew_ms,
            boot_id=f"{self.name} {self.boots}",
            metadata_store=embedded_store if store is None else lambda host, settings, lane: store(process),
        )
        started: asyncio.Future[bool] = self._loop.create_future()
        process.on_kill.append(lambda: started.done() or started.set_result(False))

        async def start() -> None:
            self.node = Node(self._settings(), host)
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

    def _check(self, invariants: Invariants) -> None:
        if self.node is not None:
            invariants.check(self.node)
            self.after_callback()

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

    # Ending

    async def stop(self) -> None:
        """In order, as after SIGTERM; every file must be closed then."""
        process, node = self.process, self.node
        assert process is not None
        assert node is not None
        stopping = self._loop.create_task(node.stop(), context=process.context())
        while not stopping.done() and process.alive:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        while self._loop.works_left[process] and process.alive:  # noqa: ASYNC110 - as a process for its threads
            await asyncio.sleep(0.01)
        if process.alive:
            stopping.result()
            assert not self.disk.open_paths(), f"open after the stop: {self.disk.open_paths()}"
            self._gone(process)

    def pause(self) -> None:
        """SIGSTOP, if it runs."""
        if self.process is not None:
            self.process.pause()

    def resume(self) -> None:
        """SIGCONT."""
        if self.process is not None:
            self.process.resume()

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
        if self.runs:
            self._die(power=True)
            self._settle()
        else:
            self._settle()
            self.boots += 1
            self.disk.power_cut()

    def replace_disk(self) -> None:
        """An empty disk; the broker is down."""
        assert not self.runs
        self._settle()
        self.disk = SimulatedFiles(self.random.getrandbits(32), now_ms=VirtualClock(self._loop).now_ms)
        self.disk.fault = self._before_disk

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
        self.boots += power

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
