"""Connections to other brokers, made when they are first needed: one for each broker and purpose."""

from typing import TYPE_CHECKING

from moldau.broker.peers.late import LatePeers
from moldau.broker.stages.ground import Ground

if TYPE_CHECKING:
    from moldau.broker.peers.broker_peers import BrokerPeers


class PeerConnections:
    """Makes them, with the security of the listener between brokers."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    def late(self, purpose: str) -> LatePeers:
        """Connections that the first request makes."""
        return LatePeers(lambda: self.make(purpose))

    def make(self, purpose: str) -> "BrokerPeers":
        """Connections for this purpose."""
        from moldau.broker.peers.broker_peers import BrokerPeers
        from moldau.broker.peers.security import PeerSecurity
        from moldau.common.settings.listeners import inter_broker_listener

        ground, settings = self._ground, self._ground.settings.now
        return BrokerPeers(
            ground.node_id,
            ground.image,
            ground.host,
            ground.lane,
            purpose=purpose,
            listener_name=inter_broker_listener(ground.static.broker),
            setup_timeout_ms=settings.socket_connection_setup_timeout_ms,
            # A response holds one batch that was a request once, or many smaller ones.
            frame_bytes_max=settings.socket_request_max_bytes + settings.replica_fetch_response_max_bytes,
            secure=PeerSecurity(ground.settings).secure,
        )
