"""An append whose end the test decides: what the logs of the coordinators' test worlds return."""

from collections.abc import Callable
from typing import Any

from moldau.common.protocol.errors import ErrorCode


class LogError(Exception):
    def __init__(self, error_code: int) -> None:
        super().__init__(ErrorCode(error_code).name)
        self.error_code = error_code


class PendingAppend:
    """An append that the test completes; it looks like a future to the runtime."""

    def __init__(self, land: Callable[[], None]) -> None:
        self._land = land
        self._callbacks: list[Callable[[Any], Any]] = []
        self._error: BaseException | None = None
        self._done = False

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        if self._done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def cancelled(self) -> bool:
        return False

    def exception(self) -> BaseException | None:
        return self._error

    def finish(self, error_code: int = 0, *, lands: bool | None = None) -> None:
        """Commit, or fail with `error_code`; `lands` says whether the records are in the log all the same."""
        if lands if lands is not None else not error_code:
            self._land()
        self._error = LogError(error_code) if error_code else None
        self._done = True
        for callback in self._callbacks:
            callback(self)
