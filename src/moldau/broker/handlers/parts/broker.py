"""What handlers are given: the broker's parts (`Broker`) and the request's version and session
(`RequestContext`).

`node.py` makes the `Broker`; handlers call its parts and keep no state of their own.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moldau.broker.handlers.parts.session import Session
from moldau.broker.monitor.request_counts import RequestCounts
from moldau.broker.monitor.request_times import RequestTimes
from moldau.common.core.allowance import Allowance
from moldau.common.core.slow_lane import SlowLane

if TYPE_CHECKING:
    from moldau.broker.controller.controller import Controller
    from moldau.broker.coordinator.group.service import GroupCoordinator
    from moldau.broker.coordinator.share.service import ShareCoordinator
    from moldau.broker.coordinator.transaction.service import TransactionCoordinator
    from moldau.broker.handlers.apis.produce.produce_transactional import Verifications
    from moldau.broker.handlers.apis.transactions.transaction_verifier import TransactionVerifier
    from moldau.broker.log.manager import LogManager
    from moldau.broker.metadata.view import MetadataView
    from moldau.broker.mirror.mirroring import Mirroring
    from moldau.broker.replication.fetch_session import FetchSessions
    from moldau.broker.replication.manager import ReplicaManager
    from moldau.broker.replication.markers import LocalMarkers
    from moldau.broker.replication.producer_ids import ProducerIds
    from moldau.broker.security.audit import AuditTrail
    from moldau.broker.security.authorizer import Authorizer
    from moldau.broker.security.quotas.limits import ClientQuotas
    from moldau.broker.share.partitions import SharePartitions
    from moldau.common.core.clock import Clock
    from moldau.common.core.side_worker import SideWorker
    from moldau.common.core.timers import Timers
    from moldau.common.settings.broker import BrokerSettings


@dataclass(slots=True)
class ResponseRoom:
    """The current size limit of a Fetch response; server/response_memory.py sets it."""

    fetch_bytes: int = 1 << 31


@dataclass(slots=True, eq=False, repr=False)  # each method made costs time at the start
class Broker:
    """The parts of one running broker that handlers use."""

    node_id: int
    settings: "BrokerSettings"
    clock: "Clock"
    timers: "Timers"
    random: random.Random
    metadata: "MetadataView"
    controller: "Controller"
    replicas: "ReplicaManager"
    log_manager: "LogManager"
    make_groups: "Callable[[], GroupCoordinator]"
    make_transactions: "Callable[[], TransactionCoordinator]"
    markers: "LocalMarkers"  # for WriteTxnMarkers, which is sent to a partition's leader and goes no further
    transaction_verifier: "TransactionVerifier"
    fetch_sessions: "FetchSessions"
    producer_ids: "ProducerIds"
    make_share_coordinator: "Callable[[], ShareCoordinator]"
    make_share: "Callable[[], SharePartitions]"
    side_worker: "SideWorker"
    verifications: "Verifications"  # batches that wait for their transaction's coordinator
    make_mirroring: "Callable[[], Mirroring]"
    request_counts: RequestCounts = field(default_factory=RequestCounts)
    request_times: RequestTimes = field(default_factory=RequestTimes)
    allowance: Allowance = field(default_factory=Allowance)
    response_room: ResponseRoom = field(default_factory=ResponseRoom)
    authorizer: "Authorizer | None" = None  # None: everybody may do everything, and nothing is asked
    audit: "AuditTrail | None" = None  # None: nobody is told who changed what
    quotas: "ClientQuotas | None" = None  # None: there was never one
    check_stores: "Callable[[BrokerSettings], Awaitable[str | None]] | None" = None
    """Why key or trust stores of such settings cannot be used; None: there is no listener with TLS."""
    slow_lane: SlowLane = field(default_factory=SlowLane)  # one a broker: large requests share its slices

    @property
    def groups(self) -> "GroupCoordinator":
        """The group coordinator, made when it is first needed: a broker starts faster without it."""
        return self.make_groups()

    @property
    def mirroring(self) -> "Mirroring":
        """Mirrors of other clusters' topics, made when they are first needed."""
        return self.make_mirroring()

    @property
    def transactions(self) -> "TransactionCoordinator":
        """The transaction coordinator, made when it is first needed."""
        return self.make_transactions()

    @property
    def share_coordinator(self) -> "ShareCoordinator":
        """The coordinator of share-partitions' states, made when it is first needed."""
        return self.make_share_coordinator()

    @property
    def share(self) -> "SharePartitions":
        """The share-partitions of partitions that this broker leads, made when they are first needed."""
        return self.make_share()


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The version and the session of one request."""

    api_version: int
    correlation_id: int
    session: Session

    @property
    def client_id(self) -> str:
        """The client id of the request; "" if it has none."""
        return self.session.client_id

    @property
    def client_host(self) -> str:
        """The address that the client connected from."""
        return self.session.client_host

    @property
    def sees_topic(self) -> None:
        """It may see all topics; where an authorizer decides that, see rights.group_client."""
        return None
