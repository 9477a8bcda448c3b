"""What the outside tells a task: go on, pause, stop; and that it was left behind, since it did not stop in
time.

The task's thread looks here between two calls of a connector, and sleeps here, so that it wakes at once.
"""

from __future__ import annotations

import threading
import time

from moldau.services.connect.runtime.interface import State


class Control:
    """Shared by a task's thread and those that command it."""

    def __init__(self, target: State = State.RUNNING) -> None:
        self._changed = threading.Condition()
        self._target = target
        self._stopping = False
        self._abandoned = False

    def set_target(self, target: State) -> None:
        """RUNNING or PAUSED."""
        with self._changed:
            self._target = target
            self._changed.notify_all()

    def stop(self) -> None:
        """End soon."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Nothing that it still does may have an effect."""
        with self._changed:
            self._stopping = self._abandoned = True
            self._changed.notify_all()

    def stopping(self) -> bool:
        """Whether to end."""
        return self._stopping

    @property
    def abandoned(self) -> bool:
        """Whether the task was left behind."""
        return self._abandoned

    @property
    def paused(self) -> bool:
        """Whether to do nothing for now."""
        return self._target is not State.RUNNING

    def wait(self, seconds: float) -> bool:
        """Sleep so long, or until stopping; returns `stopping()`."""
        until = time.monotonic() + seconds
        with self._changed:
            while not self._stopping and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            return self._stopping

    def wait_change(self, seconds: float) -> None:
        """Sleep so long, or until paused, resumed or stopped."""
        with self._changed:
            if not self._stopping:
                self._changed.wait(seconds)
