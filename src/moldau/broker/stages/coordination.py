"""The coordinators of groups, transactions and share-partitions, each made by the first request for it, or
soon after the start; and the ways to those of other brokers.
"""

import asyncio
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.coordinator.election import ElectedCoordinator, ElectedCoordinators
from moldau.broker.coordinator.stall_guard import never
from moldau.broker.handlers.apis.transactions.transaction_verifier import (
    LocalTransactionVerifier,
    TransactionVerifier,
)
from moldau.broker.metadata.image import SHARE_STATE_TOPIC
from moldau.broker.replication.coordinator_log import ReplicatedLog
from moldau.broker.replication.markers import LocalMarkers
from moldau.broker.replication.producer_ids import ProducerIds
from moldau.broker.stages.addresses import Addresses
from moldau.broker.stages.cluster import Cluster
from moldau.broker.stages.ground import Ground, HearsOfImages
from moldau.broker.stages.replication import Replication

if TYPE_CHECKING:
    from collections.abc import Callable

    from moldau.broker.coordinator.group.service import GroupCoordinator
    from moldau.broker.coordinator.markers import MarkerWriter
    from moldau.broker.coordinator.share.end_offsets import EndOffsets
    from moldau.broker.coordinator.share.service import ShareCoordinator
    from moldau.broker.coordinator.share.states import ShareStates
    from moldau.broker.coordinator.transaction.service import TransactionCoordinator
    from moldau.broker.peers.late import LatePeers

# Late enough not to hold up the first clients with imports.
_COORDINATORS_DELAY_MS = 500
_MODULES = ("moldau.broker.coordinator.group.service", "moldau.broker.coordinator.transaction.service")


class Coordination(NamedTuple):
    """The coordinators, and what they append and ask with."""

    coordinators: ElectedCoordinators
    groups: "ElectedCoordinator[GroupCoordinator]"
    transactions: "ElectedCoordinator[TransactionCoordinator]"
    shares: "ElectedCoordinator[ShareCoordinator]"
    share_states: "Callable[[], ShareStates]"
    """The share coordinators of all brokers, reached from the first call on."""
    coordinator_log: ReplicatedLog
    producer_ids: ProducerIds
    local_markers: LocalMarkers
    """For the partitions that this broker leads."""
    markers: "MarkerWriter"
    """For all partitions."""
    transaction_verifier: TransactionVerifier


def build_coordination(
    ground: Ground, addresses: Addresses, cluster: Cluster, replication: Replication
) -> Coordination:
    """Elect the coordinators of the image; none is made yet."""
    host, replicas = ground.host, replication.replicas
    coordinator_log = ReplicatedLog(replicas.partition, host.clock)
    producer_ids = ProducerIds(cluster.controller)
    stalled: Callable[[], bool] = never

    def make_groups() -> "GroupCoordinator":
        from moldau.broker.coordinator.group.service import GroupCoordinator

        return GroupCoordinator(
            log=coordinator_log,
            image=ground.image,
            settings=ground.settings,
            clock=host.clock,
            timers=host.timers,
            random_source=host.random,
            stalled=stalled,
            account=addresses.client_state.groups,
            share_states=share_states(),
            end_offsets=_end_offsets(ground, replication, share_peers),
        )

    def make_transactions() -> "TransactionCoordinator":
        from moldau.broker.coordinator.transaction.service import TransactionCoordinator

        return TransactionCoordinator(
            log=coordinator_log,
            image=ground.image,
            settings=ground.settings,
            clock=host.clock,
            timers=host.timers,
            producer_ids=producer_ids,
            markers=markers,
            stalled=stalled,
        )

    def make_shares() -> "ShareCoordinator":
        from moldau.broker.coordinator.share.service import ShareCoordinator

        return ShareCoordinator(
            log=coordinator_log,
            image=ground.image,
            settings=ground.settings,
            clock=host.clock,
            timers=host.timers,
            stalled=stalled,
        )

    groups = ElectedCoordinator(ground.node_id, make_groups, ground.show_parts)
    transactions = ElectedCoordinator(ground.node_id, make_transactions, ground.show_parts)
    shares = ElectedCoordinator(ground.node_id, make_shares, ground.show_parts)
    coordinators = ElectedCoordinators(groups, transactions, shares)
    share_peers = _share_peers(ground, cluster)
    share_states = _share_states(ground, cluster, shares, share_peers)
    coordinators.image_changed(ground.metadata.image)
    local = LocalMarkers(ground.node_id, replicas, groups.get, host.clock, ground.lane)
    markers: MarkerWriter = local
    verifier: TransactionVerifier = LocalTransactionVerifier(transactions.get)
    if cluster.in_cluster:
        stalled = _watch_for_stalls(ground, cluster, replication)
        markers, verifier = _reach_other_brokers(ground, cluster, local, verifier)
    replicas.on_internal_topic = coordinators.follow_topic
    ground.stops.add("coordinators", coordinators.stop)
    ground.begin_later("coordinators", _COORDINATORS_DELAY_MS, coordinators.make_all, _MODULES)
    return Coordination(
        coordinators,
        groups,
        transactions,
        shares,
        share_states,
        coordinator_log,
        producer_ids,
        local,
        markers,
        verifier,
    )


def _share_peers(ground: Ground, cluster: Cluster) -> "LatePeers | None":
    """Requests of share groups to other brokers; None: there are none."""
    if not cluster.in_cluster:
        return None
    peers = cluster.connections.late("share groups")
    cluster.elsewhere.append(peers)
    ground.stops.add("share groups of other brokers", peers.close)
    return peers


def _share_states(
    ground: Ground,
    cluster: Cluster,
    shares: "ElectedCoordinator[ShareCoordinator]",
    peers: "LatePeers | None",
) -> "Callable[[], ShareStates]":
    """The share coordinators of all brokers: imported and made by who first needs them."""

    async def sleep(duration_ms: float) -> None:
        await asyncio.sleep(duration_ms / 1000)

    @cache
    def made() -> "ShareStates":
        from moldau.broker.coordinator.share.states import ShareStates

        return ShareStates(
            ground.node_id,
            ground.image,
            shares.get,
            peers,
            lambda: cluster.controller.auto_create_topics([SHARE_STATE_TOPIC]),
            sleep,
        )

    return made


def _end_offsets(ground: Ground, replication: Replication, peers: "LatePeers | None") -> "EndOffsets":
    """Where partitions end, on other brokers too."""
    from moldau.broker.coordinator.share.end_offsets import EndOffsets

    replicas = replication.replicas

    def high_watermark(topic: str, index: int) -> int | None:
        partition = replicas.partition(topic, index)
        return partition.high_watermark if partition is not None and partition.leads else None

    return EndOffsets(ground.node_id, ground.image, high_watermark, peers)


def _watch_for_stalls(ground: Ground, cluster: Cluster, replication: Replication) -> "Callable[[], bool]":
    """Other brokers may have decided things while this process stood still: what tells so."""
    from moldau.broker.coordinator.stall_guard import StallGuard
    from moldau.broker.replication.leadership_check import LeadershipCheck

    host, confirm = ground.host, cluster.controller.confirm
    guard = StallGuard(host.clock, host.timers, ground.settings.now.zookeeper_session_timeout_ms / 2, confirm)
    guard.start()
    ground.stops.add("stall guard", guard.stop)
    leadership_check = LeadershipCheck(host.clock.monotonic_ms, confirm)
    replication.replicas.leadership_check = leadership_check
    ground.stops.add("leadership check", leadership_check.stop)
    return guard


def _reach_other_brokers(
    ground: Ground, cluster: Cluster, local: LocalMarkers, verifier: TransactionVerifier
) -> "tuple[MarkerWriter, TransactionVerifier]":
    """Markers go to leaders, and questions about transactions to coordinators, on other brokers too.

    Responses on one connection come in order, and a question may wait for a commit, or a marker: so each
    has connections of its own.
    """
    from moldau.broker.coordinator.cluster_markers import ClusterMarkers
    from moldau.broker.handlers.apis.transactions.cluster_verifier import ClusterTransactionVerifier

    marker_peers = cluster.connections.late("markers")
    question_peers = cluster.connections.late("transactions")
    markers = ClusterMarkers(ground.node_id, ground.image, local, marker_peers)
    verifiers = ClusterTransactionVerifier(ground.node_id, ground.image, verifier, question_peers)
    parts: list[HearsOfImages] = [marker_peers, question_peers, markers, verifiers]
    cluster.elsewhere.extend(parts)
    for part in parts:
        ground.stops.add("transactions of other brokers", part.close)
    return markers, verifiers
