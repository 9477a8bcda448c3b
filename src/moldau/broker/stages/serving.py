"""Clients are served: the parts that handlers use, logins, quotas, registration, and then the listeners."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.handlers.apis.produce.produce_transactional import Verifications
from moldau.broker.handlers.parts.broker import Broker
from moldau.broker.metadata.changes import Change
from moldau.broker.metadata.image import EMPTY_IMAGE, Image
from moldau.broker.monitor.request_times import RequestTimes
from moldau.broker.replication.fetch_session import FetchSessions
from moldau.broker.server.addresses import endpoints
from moldau.broker.server.dispatch import Dispatch
from moldau.broker.stages.addresses import Addresses
from moldau.broker.stages.cluster import Cluster, create_own_topic
from moldau.broker.stages.coordination import Coordination
from moldau.broker.stages.ground import Ground
from moldau.broker.stages.mirroring import LateMirroring
from moldau.broker.stages.replication import Replication
from moldau.broker.stages.security import LoginParts, make_logins, make_quotas
from moldau.common.core.side_worker import SideWorker

if TYPE_CHECKING:
    from moldau.broker.peers.round_trip import RoundTrips
    from moldau.broker.share.partitions import SharePartitions
    from moldau.common.credentials.jwt.key_source import KeySource

_HEALTH_TOPIC_MS = 3_600_000


class Serving(NamedTuple):
    """What handles requests."""

    broker: Broker
    logins: LoginParts | None

    def token_keys(self) -> "Sequence[KeySource]":
        """The keys of token issuers, for OAUTHBEARER."""
        return () if self.logins is None else self.logins.keys.all()


def build_serving(
    ground: Ground,
    addresses: Addresses,
    cluster: Cluster,
    replication: Replication,
    coordination: Coordination,
    mirroring: LateMirroring,
) -> Serving:
    """Make what handlers use; nobody is served yet. SettingError."""
    host, settings = ground.host, ground.settings.now
    side_worker = SideWorker(host.loop, host.workers, host.seconds)
    ground.stops.add("side worker", side_worker.close)
    broker = Broker(
        node_id=ground.node_id,
        settings=settings,
        clock=host.clock,
        timers=host.timers,
        random=host.random,
        metadata=ground.metadata,
        controller=cluster.controller,
        replicas=replication.replicas,
        log_manager=ground.logs,
        make_groups=coordination.groups.get,
        make_transactions=coordination.transactions.get,
        markers=coordination.local_markers,
        transaction_verifier=coordination.transaction_verifier,
        fetch_sessions=FetchSessions(
            settings.max_incremental_fetch_session_cache_slots,
            host.random,
            addresses.client_state.fetch_sessions,
        ),
        producer_ids=coordination.producer_ids,
        make_share_coordinator=coordination.shares.get,
        make_share=_share_partitions(ground, addresses, cluster, replication, coordination, lambda: broker),
        request_times=RequestTimes(lambda: int(host.seconds() * 1e6)),
        response_room=ground.response_room,
        slow_lane=ground.lane,
        side_worker=side_worker,
        verifications=Verifications(
            lambda: ground.settings.now,
            host.clock,
            host.timers,
            replication.replicas,
            coordination.transaction_verifier,
            side_worker,
        ),
        make_mirroring=mirroring.get,
        authorizer=cluster.authorizer,
        audit=cluster.audit,
    )
    if addresses.listeners.have_tls:
        broker.check_stores = addresses.listeners.problem_with_stores
    logins = _make_logins(ground, addresses, cluster)
    follow_quotas(ground, addresses, broker, EMPTY_IMAGE, ground.metadata.image, ())
    return Serving(broker, logins)


class _LateShare:
    """The share-partitions, made by the first request for one."""

    def __init__(self, make: "Callable[[], SharePartitions]") -> None:
        self._make = make
        self.made: SharePartitions | None = None

    def get(self) -> "SharePartitions":
        """The share-partitions, made now if need be."""
        if self.made is None:
            self.made = self._make()
        return self.made

    def image_changed(self, image: Image) -> None:
        """The metadata changed."""
        if self.made is not None:
            self.made.image_changed(image)

    def close(self) -> None:
        """The broker stops."""
        if self.made is not None:
            self.made.close()


def _share_partitions(
    ground: Ground,
    addresses: Addresses,
    cluster: Cluster,
    replication: Replication,
    coordination: Coordination,
    broker: Callable[[], Broker],
) -> "Callable[[], SharePartitions]":
    def make() -> "SharePartitions":
        from moldau.broker.handlers.apis.fetch.time_search import offset_at
        from moldau.broker.share.partitions import SharePartitions

        return SharePartitions(
            node_id=ground.node_id,
            image=ground.image,
            settings=ground.settings,
            clock=ground.host.clock,
            timers=ground.host.timers,
            states=coordination.share_states(),
            search=lambda partition, timestamp_ms: offset_at(
                partition, timestamp_ms, broker().slow_lane.slices(), broker().side_worker
            ),
            account=addresses.client_state.share_sessions,
        )

    late = _LateShare(make)
    cluster.elsewhere.append(late)
    ground.stops.add("share-partitions", late.close)
    return late.get


async def begin_serving(
    ground: Ground, addresses: Addresses, cluster: Cluster, replication: Replication, serving: Serving
) -> "RoundTrips | None":
    """Register this broker, and accept clients. NodeIdInUse and other errors of the metadata store.

    Gives the requests to other brokers that measure how long they take, where they are asked for.
    """
    host, logs, listeners = ground.host, ground.logs, addresses.listeners

    async def close_listeners() -> None:
        listeners.hold()
        await replication.group_commit.settle()  # what was appended is still answered
        await listeners.close()

    ground.stops.add("listeners", close_listeners)
    this_broker = cluster.controller.this_broker
    settings = ground.settings.now
    await this_broker.register(
        endpoints(listeners.all, ground.static.broker, host.network.name),
        settings.broker_rack,
        logs.directories.complete_epochs,
        logs.directories.ids,
    )
    replication.fetcher.begin()
    if cluster.in_cluster:
        this_broker.log_ends.begin(log_ends_of(ground))
    logins = None if serving.logins is None else serving.logins.logins
    await listeners.serve(settings, (host.dispatch or Dispatch)(serving.broker, logins))
    interval_ms = settings.moldau_health_round_trip_interval_ms
    return _begin_round_trips(ground, cluster, interval_ms) if interval_ms else None


def log_ends_of(ground: Ground) -> Callable[[str, bytes, int], tuple[int, int] | None]:
    """Finds the leader epoch of a log's last record here and its end offset; None: no log to read."""

    def log_end(topic: str, topic_id: bytes, index: int) -> tuple[int, int] | None:
        held = ground.logs.get(topic, index)
        if held is None or held.offline or held.topic_id != topic_id:
            return None
        return held.epochs.latest(), held.written_end_offset

    return log_end


def follow_quotas(
    ground: Ground, addresses: Addresses, broker: Broker, old: Image, new: Image, changes: Sequence[Change]
) -> None:
    """The clients' quotas are those of the new image; nothing is made before there is one."""
    quotas = broker.quotas
    if quotas is None:
        if not new.quotas:
            return
        quotas = broker.quotas = make_quotas(ground.host, ground.static.broker)
        ground.show_parts()
    quotas.image_changed(new, old, changes)
    addresses.listeners.quotas_changed(quotas)


def _make_logins(ground: Ground, addresses: Addresses, cluster: Cluster) -> LoginParts | None:
    names = [each.name for each in addresses.listeners.all if each.security_protocol.startswith("SASL_")]
    if not names:
        return None
    return make_logins(
        names, ground.host, ground.settings, ground.image, cluster.controller.token_signer, ground.stops
    )


def _begin_round_trips(ground: Ground, cluster: Cluster, interval_ms: int) -> "RoundTrips":
    from moldau.broker.peers.round_trip import RoundTrips

    async def create_topic(name: str, partition_count: int) -> str | None:
        kept = {"retention.ms": str(_HEALTH_TOPIC_MS), "segment.ms": str(_HEALTH_TOPIC_MS)}
        return await create_own_topic(cluster.controller, name, partition_count, kept)

    peers = cluster.connections.late("health")
    cluster.elsewhere.append(peers)
    ground.stops.add("connection of round trips", peers.close)
    trips = RoundTrips(
        ground.node_id,
        ground.image,
        ground.host,
        peers,
        create_topic,
        ground.host.loop.create_task,
        interval_ms,
    )
    ground.stops.add("round trips", trips.stop)
    trips.start()
    return trips
