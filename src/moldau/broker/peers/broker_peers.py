"""`BrokerPeers`: requests to the brokers that the metadata knows, over one connection to each.

A broker's address is that of the listener between brokers (`inter.broker.listener.name`, or of the name that
`security.inter.broker.protocol` has), or its first; how to connect depends on that listener. When a broker is
registered anew (another broker epoch) or at another address, or has gone from the metadata, its connection is
closed, and what is in flight fails: the process that was asked is not there any more.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from moldau.broker.metadata.image import BrokerState, Image
from moldau.broker.peers.call import Call, PeerRequest, RawResponse
from moldau.broker.peers.channel import Channel
from moldau.broker.peers.host import PeerHost
from moldau.common.core.slow_lane import SlowLane
from moldau.common.protocol.declare import Message

if TYPE_CHECKING:
    from moldau.common.credentials.client.options import ClientSecurity

Secure = Callable[[str], "Callable[[], ClientSecurity] | None"]
"""From a listener's name to how it is connected to, asked at each attempt; None: in plain text."""


class BrokerPeers:
    """Requests of one purpose to all other brokers."""

    def __init__(
        self,
        node_id: int,
        image: Callable[[], Image],
        host: PeerHost,
        lane: SlowLane,
        *,
        purpose: str,
        listener_name: str | None,
        setup_timeout_ms: int,
        frame_bytes_max: int,
        secure: Secure = lambda listener: None,
    ) -> None:
        """`purpose` is in the client id, `listener_name` None the first listener; a connection must be made
        within `setup_timeout_ms`, and no response may be larger than `frame_bytes_max`.
        """
        self._client_id = f"broker-{node_id}-{purpose}"
        self._image = image
        self._host, self._lane = host, lane
        self._listener_name = listener_name
        self._setup_timeout_ms = setup_timeout_ms
        self._frame_bytes_max = frame_bytes_max
        self._secure = secure
        self._channels: dict[int, tuple[int, Channel]] = {}  # with the broker epoch
        self._closed = False

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
        return self._send(node_id, request, timeout_ms, version_min, version_max, raw=False)

    def send_raw(
        self, node_id: int, request: PeerRequest, *, timeout_ms: int, version_min: int = 0
    ) -> "asyncio.Future[RawResponse]":
        """As `send`, but the response is not decoded. Its memory is used again after `give_back`."""
        return self._send(node_id, request, timeout_ms, version_min, None, raw=True)

    def give_back(self, node_id: int, response: RawResponse) -> None:
        """Nothing refers to this response of the broker any more."""
        held = self._channels.get(node_id)
        if held is not None:
            held[1].give_back(response.frame)

    def _send(
        self,
        node_id: int,
        request: PeerRequest,
        timeout_ms: int,
        version_min: int,
        version_max: int | None,
        *,
        raw: bool,
    ) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = self._host.loop.create_future()
        call = Call(request, version_min, version_max, future, raw=raw)
        channel = self._channel(node_id)
        if isinstance(channel, str):
            call.fail(channel)
        else:
            channel.send(call, timeout_ms)
        return future

    def _channel(self, node_id: int) -> Channel | str:
        """The way to this broker, or why there is none."""
        broker = self._image().brokers.get(node_id)
        if self._closed:
            return "this broker is stopping; the request was not sent"
        if broker is None:
            return f"broker {node_id} is not registered; the request was not sent"
        listener = self._listener(broker)
        if listener is None:
            return (
                f"broker {node_id} has no listener {self._listener_name} (inter.broker.listener.name); "
                "the request was not sent"
            )
        endpoint = broker.endpoints[listener]
        held = self._channels.get(node_id)
        if held is not None:
            if held[0] == broker.broker_epoch and held[1].endpoint == endpoint:
                return held[1]
            self._drop(node_id, "it was registered anew")
        channel = Channel(
            f"broker {node_id} at {endpoint[0]}:{endpoint[1]}",
            endpoint,
            self._host,
            self._lane,
            client_id=self._client_id,
            setup_timeout_ms=self._setup_timeout_ms,
            frame_bytes_max=self._frame_bytes_max,
            security=self._secure(listener),
        )
        self._channels[node_id] = (broker.broker_epoch, channel)
        return channel

    def _listener(self, broker: BrokerState) -> str | None:
        """The name of the broker's listener to connect to."""
        if self._listener_name is None:
            return next(iter(broker.endpoints), None)
        return self._listener_name if self._listener_name in broker.endpoints else None

    def _endpoint(self, broker: BrokerState) -> tuple[str, int] | None:
        listener = self._listener(broker)
        return None if listener is None else broker.endpoints[listener]

    def image_changed(self, image: Image) -> None:
        """The metadata changed: close the connections to brokers that went or came back as others."""
        for node_id, (broker_epoch, channel) in list(self._channels.items()):
            broker = image.brokers.get(node_id)
            if broker is None:
                self._drop(node_id, "it is not registered any more")
            elif broker.broker_epoch != broker_epoch or self._endpoint(broker) != channel.endpoint:
                self._drop(node_id, "it was registered anew")

    def _drop(self, node_id: int, reason: str) -> None:
        _, channel = self._channels.pop(node_id)
        channel.close(reason)

    def close(self) -> None:
        """Close all connections; what is under way fails."""
        self._closed = True
        for node_id in list(self._channels):
            self._drop(node_id, "this broker is stopping")
