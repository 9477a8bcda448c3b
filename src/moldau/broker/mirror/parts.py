"""What mirroring needs of the broker."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moldau.broker.controller.controller import Controller
from moldau.broker.metadata.image import Image
from moldau.broker.peers.host import PeerHost
from moldau.broker.peers.peers import Peers
from moldau.broker.replication.manager import ReplicaManager
from moldau.common.core.clock import Clock
from moldau.common.core.slow_lane import SlowLane

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.service import GroupCoordinator


@dataclass(slots=True, eq=False, repr=False)
class MirrorParts:
    """The parts that all links of this broker share."""

    node_id: int
    host: PeerHost
    clock: Clock
    lane: SlowLane
    image: Callable[[], Image]
    controller: Controller
    replicas: ReplicaManager
    groups: "Callable[[], GroupCoordinator]"
    peers: Peers
    """To this cluster's other brokers."""
    has_rights: bool
    """Whether an authorizer decides here who may do what."""
    frame_bytes_max: int
    """No answer of the source may be larger."""
    fetch_wait_ms: Callable[[], int]
    fetch_bytes_max: Callable[[], int]
    partition_bytes_max: Callable[[], int]

    async def pause(self, pause_ms: float) -> None:
        """Wait for so long."""
        waits = self.host.loop.create_future()
        timer = self.host.timers.call_later(
            pause_ms, lambda: None if waits.done() else waits.set_result(None)
        )
        try:
            await waits
        finally:
            timer.cancel()
