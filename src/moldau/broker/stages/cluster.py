"""The cluster's metadata is open: the image is known, decisions can be made, and who may do what is known.

This broker is not registered yet, and other brokers do not count on it.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.controller.configs import MIN_ISR
from moldau.broker.controller.controller import Controller
from moldau.broker.log.files.checkpoints import stored_cluster_id
from moldau.broker.metadata.configs import effective_broker_settings
from moldau.broker.metadata.embedded import EmbeddedStore
from moldau.broker.metadata.first_changes import read_first_changes, remove_first_changes
from moldau.broker.stages.addresses import Addresses
from moldau.broker.stages.ground import Ground, HearsOfImages
from moldau.broker.stages.peers import PeerConnections
from moldau.broker.stages.security import (
    check_security_of_peers,
    make_audit,
    make_authorizer,
    make_policies,
)
from moldau.common.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.security.audit import AuditTrail
    from moldau.broker.security.authorizer import Authorizer

log = logging.getLogger("moldau.node")

_OWN_TOPIC_REPLICAS_MAX = 3


class Cluster(NamedTuple):
    """The controller in this process, and what follows the metadata."""

    controller: Controller
    in_cluster: bool
    """Whether the metadata store may have other brokers; if not, nothing is sent to any."""
    connections: PeerConnections
    audit: "AuditTrail | None"
    authorizer: "Authorizer | None"
    elsewhere: list[HearsOfImages]
    """Parts that send to other brokers; they are told of each new image."""


async def open_cluster(ground: Ground, addresses: Addresses) -> Cluster:
    """Open the metadata store (which locks the data) and read the image. MetadataStoreError, SettingError."""
    host, broker = ground.host, ground.static.broker
    store = host.metadata_store(host, broker, ground.lane)
    in_cluster = not isinstance(store, EmbeddedStore)
    ground.metadata.timers = host.timers
    controller = Controller(
        ground.node_id,
        store,
        ground.metadata,
        ground.static,
        host.random,
        ground.lane,
        host.timers,
        host.clock,
        make_policies(host, ground.static, ground.stops),
        in_cluster=in_cluster,
    )
    ground.stops.add("metadata", controller.this_broker.close)
    folder = broker.metadata_log_dir or broker.data_directories[0]
    first = read_first_changes(host.files, folder)
    found_id = stored_cluster_id(host.files, broker.data_directories)
    made = await controller.this_broker.open(found_id, first)
    remove_first_changes(host.files, folder, used=made)
    ground.settings.now = effective_broker_settings(ground.metadata.image, broker, ground.node_id)
    _warn_of_min_isr(ground, ground.settings.now.min_insync_replicas)
    if in_cluster:
        await check_security_of_peers(host, broker, ground.settings.now, addresses.listeners.all[0].name)
    connections = PeerConnections(ground)
    elsewhere: list[HearsOfImages] = []
    peers = connections.late("audit")
    audit = make_audit(
        host,
        broker,
        ground.image,
        peers,
        lambda name: create_own_topic(controller, name, 1, {}),
        ground.stops,
    )
    if broker.moldau_audit_topic:
        elsewhere.append(peers)
    authorizer = make_authorizer(broker, ground.metadata, audit, addresses.listeners.rights_changed)
    return Cluster(controller, in_cluster, connections, audit, authorizer, elsewhere)


def _warn_of_min_isr(ground: Ground, now: int) -> None:
    """Warn when the file's value has no effect: the metadata have one since the cluster was made."""
    static = ground.static.broker.min_insync_replicas
    if MIN_ISR in ground.static.texts and static != now:
        log.warning(
            "%s=%d has no effect: the cluster has %d for all brokers; change it with kafka-configs --alter "
            "--entity-type brokers --entity-default --add-config %s=%d",
            MIN_ISR,
            static,
            now,
            MIN_ISR,
            static,
        )


async def create_own_topic(
    controller: Controller, name: str, partition_count: int, configs: Mapping[str, str]
) -> str | None:
    """Create a topic of the broker's own; None, or why it could not be."""
    from moldau.broker.controller.topics import NewTopic

    live = sum(not each.fenced for each in controller.view.image.brokers.values())
    replicas = min(max(live, 1), _OWN_TOPIC_REPLICAS_MAX)
    new = NewTopic(name, partition_count, replicas, configs=dict(configs))
    (result,) = await controller.create_topics([new])
    code = result.outcome.error_code
    if not result.outcome.failed or code is ErrorCode.TOPIC_ALREADY_EXISTS:
        return None
    return f"{code.name}: {result.outcome.message or 'no details'}"
