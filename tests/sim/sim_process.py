"""A process of the simulation: a broker or a client, which can be killed between any two callbacks.

All processes share one thread and one event loop. Which process a callback belongs to is a context variable:
whatever a process schedules, directly or through asyncio, inherits it. `kill` is kill -9: none of its
callbacks runs again, not even a `finally`; what the process leaves in the kernel (its sockets, what it wrote
to files) is looked after by those who registered with `on_kill`.

`pause` is SIGSTOP: its callbacks wait, while its kernel goes on taking bytes and connections.

`Killed` stops a process in the middle of a callback (its disk raises it). It is not an Exception, so that no
handler of the code under test swallows it.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable

from moldau.testing.simulated_files import Crash

_current: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class Killed(Crash):
    """The process is dead, and does nothing any more."""


class Process:
    """Something that runs and can be killed. `host` is the name by which others reach it."""

    def __init__(self, name: str, host: str = "") -> None:
        self.name = name
        self.host = host or name
        self.alive = True
        self.paused = False
        """SIGSTOP: none of its callbacks runs while time passes; they wait in order."""
        self.work_seconds = 0.0
        """How much longer what it gives to threads (fsync, mostly) may take."""
        self.on_kill: list[Callable[[], None]] = []
        self.before_callback: Callable[[], None] = lambda: None
        """Called before each of its callbacks; it may kill the process."""
        self.after_callback: Callable[[], None] = lambda: None
        """Called after each of its callbacks; an AssertionError fails the run."""
        self._context = contextvars.copy_context()
        self._context.run(_current.set, self)

    def context(self) -> contextvars.Context:
        """A context in which everything is this process's doing."""
        return self._context.copy()

    def kill(self) -> None:
        """As kill -9; killing twice does nothing."""
        if self.alive:
            self.alive, self.paused = False, False
            for tell in self.on_kill:
                tell()

    def pause(self) -> None:
        """As SIGSTOP."""
        self.paused = True

    def resume(self) -> None:
        """As SIGCONT: whatever has come meanwhile is there at once."""
        self.paused = False

    def must_live(self) -> None:
        """Raise `Killed` if it is dead: nothing that it still does may have an effect."""
        if not self.alive:
            raise Killed(self.name)

    def __repr__(self) -> str:
        return self.name


def current_process() -> Process | None:
    """Whose callback runs; None for the simulation itself."""
    return _current.get()


def process_of(context: contextvars.Context) -> Process | None:
    """Whose callbacks run in this context."""
    return context.get(_current)
