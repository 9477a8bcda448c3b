"""A world from a seed: machines with brokers, clients, a network between them, and time; on one thread.

    async def scenario(world: World) -> None:
        machine = world.machine("node1")
        await machine.start()
        ...
        machine.kill()
        await machine.start()

    simulate(scenario, seed=17)

The same seed gives the same run, whatever the interpreter's hash seed and the machine. `simulate` fails with
the seed, how to run it again and the last events, when the scenario fails or a process meets an error that
nobody handles; what the brokers log as a bug counts as one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from sim_loop import VirtualLoop
from sim_machine import Machine
from sim_network import Network
from sim_process import Process
from sim_trace import Trace

T = TypeVar("T")
Scenario = Callable[["World"], Coroutine[Any, Any, T]]

SECONDS_MAX = 3600.0
_LOGS = logging.getLogger("moldau")


class World:
    """Everything there is, for one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = self.draw("scenario")
        self.trace = Trace()
        self.loop = VirtualLoop(self.draw("loop"), self.trace)
        self.network = Network(self.loop, self.draw("network"))
        self.machines: list[Machine] = []
        self.processes: list[Process] = []

    def draw(self, name: str) -> random.Random:
        """Random numbers of their own for whoever is named: others drawing more or less change nothing."""
        return random.Random(f"{self.seed}/{name}")

    def machine(self, name: str, **settings: str) -> Machine:
        """A machine with an empty disk and a broker that is not started; settings with _ for the dots."""
        told = {key.replace("_", "."): value for key, value in settings.items()}
        machine = Machine(name, self.loop, self.network, self.draw(name), told)
        self.machines.append(machine)
        return machine

    def process(self, name: str) -> Process:
        """A client's process, on a host of its own."""
        process = Process(name)
        process.on_kill.append(lambda: self.network.process_killed(process))
        self.processes.append(process)
        return process

    def spawn(self, process: Process, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine as the process's doing."""
        return self.loop.create_task(work, context=process.context())

    def background(self, process: Process, work: Coroutine[Any, Any, None]) -> None:
        """As `spawn`, for what nobody waits for: an error in it fails the run."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                message = f"{process} failed"
                self.loop.call_exception_handler({"message": message, "exception": task.exception()})

        self.spawn(process, work).add_done_callback(ended)

    async def sleep_ms(self, duration_ms: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(duration_ms / 1000)

    async def until(self, done: Callable[[], bool], seconds_max: float = 120.0) -> None:
        """Wait until something is so; AssertionError when it is not after so much virtual time."""
        end = self.loop.time() + seconds_max
        while not done():
            assert self.loop.time() < end, f"waited in vain for {seconds_max} s"
            await asyncio.sleep(0.005)

    def run(self, scenario: Scenario[T], seconds_max: float = SECONDS_MAX) -> T:
        """Run the scenario to its end; its result."""
        task = self.loop.create_task(scenario(self))
        self.loop.run_until(lambda: task.done() or bool(self.loop.failures), seconds_max)
        return task.result() if task.done() else cast(T, None)

    def close(self) -> None:
        """End everything, quietly."""
        for process in self.processes + [each.process for each in self.machines if each.process is not None]:
            process.alive = False
        self.loop.close()


class _Bugs(logging.Handler):
    """Collects what brokers log with a traceback, and the last warnings for whoever reads a failure."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.failures: list[str] = []
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{record.levelname} {record.name}: {record.getMessage()}"
        self.lines.append(line)
        if record.exc_info:
            self.failures.append(f"{line}\n{logging.Formatter().formatException(record.exc_info)}")


def simulate(scenario: Scenario[T], seed: int, *, whole_trace: bool = False) -> tuple[T, Trace]:
    """Run a scenario in a world of this seed; its result and what happened. A failure tells the seed."""
    bugs = _Bugs()
    level, propagate = _LOGS.level, _LOGS.propagate
    _LOGS.addHandler(bugs)
    _LOGS.setLevel(logging.WARNING)
    _LOGS.propagate = False
    world = World(seed)
    if whole_trace:
        world.trace.whole = []
    try:
        result = world.run(scenario)
        failures = world.loop.failures + bugs.failures
        assert not failures, "errors that nobody handled:\n" + "\n".join(failures[:40])
    except Exception as error:
        raise AssertionError(_told(world, scenario, bugs, error)) from error
    finally:
        world.close()
        _LOGS.removeHandler(bugs)
        _LOGS.setLevel(level)
        _LOGS.propagate = propagate
    return result, world.trace


def _told(world: World, scenario: Scenario[Any], bugs: _Bugs, error: Exception) -> str:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").split("[")[0].split(" ")[0]
    again = f"MOLDAU_SIM_SEED={world.seed} pytest {test or 'tests/sim'}"
    parts = [
        f"seed {world.seed} failed: {error}",
        f"again: {again}",
        "last events:",
        world.trace.tail(),
        "brokers' log:",
        *bugs.lines[-20:],
        *world.loop.failures[:40],
    ]
    return "\n".join(parts)
