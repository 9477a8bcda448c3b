"""Mirrors of other clusters' topics: made with the first link, so that a broker without one pays nothing."""

from typing import TYPE_CHECKING

from moldau.broker.metadata.image import Image
from moldau.broker.stages.cluster import Cluster
from moldau.broker.stages.coordination import Coordination
from moldau.broker.stages.ground import Ground
from moldau.broker.stages.replication import Replication

if TYPE_CHECKING:
    from moldau.broker.mirror.mirroring import Mirroring


class LateMirroring:
    """Makes the broker's part in mirroring when it is first needed."""

    def __init__(
        self, ground: Ground, cluster: Cluster, replication: Replication, coordination: Coordination
    ) -> None:
        self._ground = ground
        self._cluster = cluster
        self._replication = replication
        self._coordination = coordination
        self.made: Mirroring | None = None

    def get(self) -> "Mirroring":
        """The part, made now if need be."""
        if self.made is None:
            self.made = self._make()
            self._ground.stops.add("mirrors", self.made.close)
        return self.made

    def image_changed(self, image: Image) -> None:
        """The metadata changed, and the partitions are in step with it."""
        if self.made is not None or image.mirror_links:
            self.get().image_changed(image)

    def _make(self) -> "Mirroring":
        from moldau.broker.mirror.mirroring import Mirroring
        from moldau.broker.mirror.parts import MirrorParts

        ground, settings = self._ground, self._ground.settings
        peers = self._cluster.connections.late("mirrors")
        self._cluster.elsewhere.append(peers)
        ground.stops.add("mirrors' questions to other brokers", peers.close)
        return Mirroring(
            MirrorParts(
                node_id=ground.node_id,
                host=ground.host,
                clock=ground.host.clock,
                lane=ground.lane,
                image=ground.image,
                controller=self._cluster.controller,
                replicas=self._replication.replicas,
                groups=self._coordination.groups.get,
                peers=peers,
                has_rights=self._cluster.authorizer is not None,
                frame_bytes_max=settings.now.socket_request_max_bytes
                + settings.now.replica_fetch_response_max_bytes,
                fetch_wait_ms=lambda: settings.now.replica_fetch_wait_max_ms,
                fetch_bytes_max=lambda: settings.now.replica_fetch_response_max_bytes,
                partition_bytes_max=lambda: settings.now.replica_fetch_max_bytes,
            )
        )
