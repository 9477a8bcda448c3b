"""Removes expired delegation tokens from the metadata, every delegation.token.expiry.check.interval.ms.

Only the elected controller does, and only where delegation tokens are enabled. A token that has expired and
is still there is refused at login and in requests already: this only frees its place.
"""

import asyncio
import logging
from collections.abc import Callable

from moldau.broker.controller.delegation_tokens import remove_expired_tokens
from moldau.broker.controller.loop import DecisionLoop
from moldau.broker.metadata.store import ControllerFenced, NoSession, OutcomeUnknown
from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.settings.broker import BrokerSettings

log = logging.getLogger("moldau.controller")


class TokenExpiry:
    """Looks for expired tokens, as long as this broker is the controller."""

    def __init__(self, loop: DecisionLoop, clock: Clock, settings: Callable[[], BrokerSettings]) -> None:
        self._loop = loop
        self._clock = clock
        self._settings = settings
        self._timers: Timers | None = None
        self._timer: TimerHandle | None = None
        self._epoch: int | None = None
        self._task: asyncio.Task[None] | None = None

    def seat_changed(self, controller_epoch: int | None, timers: Timers | None) -> None:
        """This broker became the controller, or (None) is it no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._epoch, self._timers = controller_epoch, timers
        self._wait()

    def _wait(self) -> None:
        settings = self._settings()
        if self._epoch is None or self._timers is None or settings.delegation_token_secret_key is None:
            return
        interval_ms = settings.delegation_token_expiry_check_interval_ms
        self._timer = self._timers.call_later(interval_ms, self._look)

    def _look(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self.remove_expired())

    async def remove_expired(self) -> None:
        """Remove them now, and look again after the interval."""
        epoch = self._epoch
        if epoch is None:
            return
        now_ms = self._clock.now_ms()
        try:
            removed = await self._loop.decide(
                lambda image: remove_expired_tokens(image, now_ms), controller_epoch=epoch
            )
        except (ControllerFenced, NoSession, OutcomeUnknown) as error:
            log.info("expired delegation tokens are not removed now: %s", error)
        except Exception:
            log.exception("expired delegation tokens could not be removed; trying again after the interval")
        else:
            for token in removed:
                log.info("delegation token %s of %s has expired", token.token_id, token.owner)
        if self._epoch == epoch and self._timer is None:
            self._wait()
