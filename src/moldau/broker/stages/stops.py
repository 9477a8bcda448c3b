"""What has been started and must be stopped, in reverse."""

import inspect
import logging
from collections.abc import Callable

log = logging.getLogger("moldau.node")


class Stops:
    """The parts that run, in the order in which they were started."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, Callable[[], object]]] = []
        self.clean = True
        """Whether all has ended in order so far: then the logs get their clean-shutdown marker."""

    def add(self, name: str, stop: Callable[[], object]) -> None:
        """This part runs; `stop` ends it, and may return an awaitable."""
        self.parts.append((name, stop))

    async def run(self) -> None:
        """Stop all; a part that fails to stop does not affect the others."""
        while self.parts:
            name, stop = self.parts.pop()
            try:
                result = stop()
                if inspect.isawaitable(result):
                    await result
            except Exception:
                self.clean = False
                log.exception("stopping the %s failed", name)
