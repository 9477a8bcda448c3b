"""The HTTP port: bound first, so that its address is known; served a moment later.

Monitoring and its imports must not delay the first clients. So the port listens from the start, and
connections wait; `begin` runs after a delay: during recovery if that takes long, else after the start.

Not here: what is monitored and shown (monitoring.py).
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from moldau.broker.server.addresses import AddressError, shown
from moldau.common.core.late_start import LateStart
from moldau.common.core.network import Address, Network
from moldau.common.settings.checks import OFF
from moldau.common.settings.sources import StaticSettings

if TYPE_CHECKING:
    from moldau.broker.server.monitoring import Monitoring

log = logging.getLogger("moldau.node")

_BEGIN_DELAY_MS = 300
_BACKLOG = 64
_MODULES = ("moldau.broker.server.monitoring",)


class MonitoringPort:
    """Holds the HTTP address, and monitoring once it has begun."""

    def __init__(
        self,
        static: StaticSettings,
        network: Network,
        late_start: Callable[[float, Callable[[], None], Sequence[str]], LateStart],
        make: "Callable[[], Monitoring]",
        on_begun: Callable[[], None],
    ) -> None:
        """`late_start`: calls later, once modules are imported. `make` builds monitoring; `on_begun` is
        called when it is there.
        """
        self._asked = static.broker.moldau_http_listener
        if self._asked == OFF:
            self._asked = ""
        self._asked_for = "moldau.http.listener" in static.texts
        self._network = network
        self._late_start = late_start
        self._make = make
        self._on_begun = on_begun
        self._port: Address | None = None
        self._timer: LateStart | None = None
        self._serving: asyncio.Task[None] | None = None
        self._stopped = False
        self.address: str | None = None
        """host:port, or None when there is no HTTP port."""
        self.monitoring: Monitoring | None = None
        """Once it has begun."""

    def bind(self) -> None:
        """Bind the port. AddressError: it cannot be bound."""
        if not self._asked:
            return
        host, _, port = self._asked.rpartition(":")
        host = host.strip("[]")
        try:
            self._port = self._network.listen(host, int(port), _BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or self._asked_for:
                why = error.strerror or error
                raise AddressError(
                    f"the HTTP port {self._asked} (moldau.http.listener) cannot be opened: {why}; choose "
                    "another, or set it to nothing to go without health and metrics"
                ) from None
            # Nobody asked for this very port, so a second broker on one machine takes another.
            self._port = self._network.listen(host, 0, _BACKLOG)
            log.warning("port %s is taken: health and metrics are on a free port this time", port)
        self.address = f"{shown(host)}:{self._port.port}"

    def begin_soon(self) -> None:
        """Schedule `begin`: the addresses are bound, and what secures the port is known."""
        if self._port is not None:
            self._timer = self._late_start(_BEGIN_DELAY_MS, self.begin, _MODULES)

    def begin(self) -> None:
        """Start monitoring and serve; nothing if that has begun, or there is no port."""
        if self.monitoring is not None or self._port is None or self._stopped:
            return
        self.monitoring = self._make()
        self._on_begun()
        self._serving = asyncio.get_running_loop().create_task(self.monitoring.start(self._port))

    async def stop(self) -> None:
        """End monitoring and close the port."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self.monitoring is not None and self._serving is not None:
            await self._serving
            await self.monitoring.stop()
        if self._port is not None:
            self._port.close()
