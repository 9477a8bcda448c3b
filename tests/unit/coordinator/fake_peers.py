"""Other brokers whose responses the test decides on: a `Peers` without connections."""

import asyncio
from typing import Any

from moldau.broker.peers.peers import PeerError
from moldau.common.protocol.declare import Message


class Sent:
    """One request, decoded from its bytes."""

    def __init__(self, node_id: int, request: Any, timeout_ms: int) -> None:
        self.node_id, self.request, self.timeout_ms = node_id, request, timeout_ms
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def respond(self, response: Any) -> None:
        self.future.set_result(response)

    def fail(self) -> None:
        self.future.set_exception(PeerError("disconnected"))


class FakePeers:
    """Keeps what is sent, oldest first."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []

    def send(
        self,
        node_id: int,
        request: Message,
        *,
        timeout_ms: int,
        version_min: int = 0,
        version_max: int | None = None,
    ) -> Any:
        last = type(request).VERSIONS[1] if version_max is None else version_max
        assert version_min <= last
        sent = Sent(node_id, type(request).decode(request.encode(last), last), timeout_ms)
        self.sent.append(sent)
        return sent.future

    def to(self, node_id: int) -> list[Sent]:
        return [each for each in self.sent if each.node_id == node_id]


async def turns(count: int = 6) -> None:
    """Let everything that is due happen."""
    for _ in range(count):
        await asyncio.sleep(0)
