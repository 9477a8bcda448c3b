"""Renews the TLS stores of listeners: when settings change, and when a look finds that files have changed."""

import asyncio
from collections.abc import Sequence

from moldau.broker.server.listener_tls import ListenerTls
from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.settings.broker import BrokerSettings


class TlsRenewals:
    """Of all listeners with TLS of one broker."""

    def __init__(self, listeners: Sequence[ListenerTls], settings: BrokerSettings, timers: Timers) -> None:
        self._listeners = listeners
        self._settings = settings
        self._timers = timers
        self._timer: TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._stopped = False

    def settings_changed(self, settings: BrokerSettings) -> None:
        """Other settings hold from now on."""
        self._settings = settings
        self._renew()

    def look(self) -> None:
        """Look at the files, now and after each interval."""
        if self._stopped:
            return
        self._renew()
        interval_ms = self._settings.moldau_ssl_files_check_interval_ms
        if interval_ms:
            self._timer = self._timers.call_later(interval_ms, self.look)

    def _renew(self) -> None:
        self._again = True
        if not self._stopped and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._renew_all())

    async def _renew_all(self) -> None:
        while self._again and not self._stopped:
            self._again = False
            for each in self._listeners:
                await each.renew(self._settings)

    async def stop(self) -> None:
        """No more looks; waits for one that is under way."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])
