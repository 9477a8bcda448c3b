"""The interface: a request to another broker, and its response or a `PeerError`.

Requests to one broker share a connection and are answered in order there, so what may wait long (a
follower's Fetch) has connections of its own.

Not here: `BrokerPeers`, the implementation (broker_peers.py).
"""

from collections.abc import Awaitable
from typing import Any, Protocol

from moldau.common.protocol.declare import Message


class PeerError(Exception):
    """No response: unreachable, disconnected, timed out, or no version in common. Unless the message says
    otherwise the other broker may have carried the request out.
    """


class Unsupported(PeerError):
    """The other broker does not have the request in any version that is allowed; nothing was sent."""


class Peers(Protocol):
    """Sends requests to other brokers."""

    def send(
        self,
        node_id: int,
        request: Message,
        *,
        timeout_ms: int,
        version_min: int = 0,
        version_max: int | None = None,
    ) -> Awaitable[Any]:
        """Send a request, in the highest version that both brokers support within these bounds; connects
        first if need be. Not sent again: that is for the caller to decide.

        Gives the response, or raises PeerError, after `timeout_ms` at the latest. While a broker cannot be
        reached, requests wait for the next attempt to connect, which paces callers that repeat at once.
        """
