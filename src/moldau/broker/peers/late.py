"""`LatePeers`: a `Peers` whose implementation is imported and made by the first request.

A single broker never asks another one, and must not pay for being able to.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from moldau.broker.metadata.image import Image
from moldau.common.protocol.declare import Message

if TYPE_CHECKING:
    from moldau.broker.peers.broker_peers import BrokerPeers


class LatePeers:
    """Requests of one purpose to all other brokers, see `Peers`."""

    def __init__(self, make: "Callable[[], BrokerPeers]") -> None:
        self._make = make
        self.made: BrokerPeers | None = None

    def get(self) -> "BrokerPeers":
        """The implementation, made now if need be."""
        if self.made is None:
            self.made = self._make()
        return self.made

    def send(
        self,
        node_id: int,
        request: Message,
        *,
        timeout_ms: int,
        version_min: int = 0,
        version_max: int | None = None,
    ) -> Awaitable[Any]:
        """As `Peers.send`."""
        return self.get().send(
            node_id, request, timeout_ms=timeout_ms, version_min=version_min, version_max=version_max
        )

    def image_changed(self, image: Image) -> None:
        """The metadata changed."""
        if self.made is not None:
            self.made.image_changed(image)

    def close(self) -> None:
        """End all connections; what is under way fails."""
        if self.made is not None:
            self.made.close()
