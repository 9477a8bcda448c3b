"""A group member for the clients of this process: a thread that polls, remembers and commits."""

from __future__ import annotations

import threading
from collections.abc import Callable

from client_model import Place, Received


class PollingMember:
    """Runs `step` in a thread until closed; the step returns what it read and what is assigned."""

    def __init__(self, step: Callable[[], tuple[list[Received], set[Place]]], close: Callable[[], None]):
        self._step = step
        self._close = close
        self._lock = threading.Lock()
        self._taken: list[Received] = []
        self._assigned: set[Place] = set()
        self._failure: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                records, assigned = self._step()
                with self._lock:
                    self._taken += records
                    self._assigned = assigned
        except BaseException as error:
            self._failure = error
        finally:
            self._close()

    def assignment(self) -> set[Place]:
        self._raise_failure()
        with self._lock:
            return set(self._assigned)

    def take(self) -> list[Received]:
        self._raise_failure()
        with self._lock:
            taken, self._taken = self._taken, []
        return taken

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(20)
        assert not self._thread.is_alive(), "the consumer does not close"
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise AssertionError("the member failed in the background") from self._failure
