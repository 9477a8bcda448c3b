"""This broker in the cluster: opens the metadata store, registers, tells of lost replicas, leaves.

    open ──> [adopt_topics, replicas_lost] ──> register ──> ... replicas_offline ... ──> shut_down ──> close

Not here: keeping the registration and the controller's seat (presence.py), what clients ask for
(controller.py).
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.broker.controller.adoption import FoundTopic, adopt_topics
from moldau.broker.controller.decision import Decision
from moldau.broker.controller.features import one_min_isr
from moldau.broker.controller.log_ends import LogEndReports
from moldau.broker.controller.loop import DecisionLoop
from moldau.broker.controller.membership import RulesOf
from moldau.broker.controller.presence import Presence
from moldau.broker.controller.replica_losses import LossReports, Replicas, replicas_lost
from moldau.broker.metadata.changes import Change, ClusterCreated, FeatureLevelChanged
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.levels import LEVEL_MAX, LEVELS, complaint
from moldau.broker.metadata.store import (
    NO_BROKER_EPOCH,
    Event,
    MetadataStore,
    MetadataStoreError,
    Registration,
)
from moldau.broker.metadata.view import MetadataView
from moldau.common.core.ids import random_uuid, uuid_to_text
from moldau.common.core.timers import LoopTimers, Timers
from moldau.common.settings.broker import BrokerSettings

if TYPE_CHECKING:
    from moldau.broker.controller.shutdown import ControlledShutdown

log = logging.getLogger("moldau.controller")


class ThisBroker:
    """The broker of this process, as a member of the cluster."""

    def __init__(
        self,
        node_id: int,
        store: MetadataStore,
        view: MetadataView,
        loop: DecisionLoop,
        rules: RulesOf,
        settings: Callable[[], BrokerSettings],
        source: random.Random,
        timers: Timers | None,
    ) -> None:
        self._node_id = node_id
        self._store = store
        self._view = view
        self._loop = loop
        self._rules = rules
        self._settings = settings
        self._random = source
        self._given_timers = timers
        self.presence = Presence(node_id, store, view, rules)
        self.log_ends = LogEndReports(node_id, loop, lambda: self.presence.timers)
        self._losses = LossReports(node_id, loop, rules, lambda: self.presence.timers)
        self._shutdown: ControlledShutdown | None = None
        self.raise_level: Callable[[], Awaitable[object]] | None = None
        """In a cluster: raises the metadata level as far as this broker's software can."""
        self.cluster_is_new = False
        """Whether no broker was ever registered: a new cluster, or a data folder that Kafka wrote."""

    def heard(self, event: Event) -> None:
        """The store tells of something that is not in the log of changes."""
        self.presence.heard(event)
        if self._shutdown is not None:
            self._shutdown.heard()

    # Starting

    async def open(self, cluster_id: str | None = None, first: Sequence[Change] = ()) -> bool:
        """Open the store and publish what it holds; whether this made the cluster. MetadataStoreError when it
        cannot be.

        A new cluster gets `cluster_id` (that of meta.properties, where Kafka wrote the folder), else a random
        one, and begins with the changes in `first`, and with this broker's `min.insync.replicas` for all.
        """
        self.presence.timers = self._given_timers or LoopTimers(asyncio.get_running_loop())
        image = await self._loop.open()
        unreadable = complaint(image.level)
        if unreadable is not None:
            raise MetadataStoreError(unreadable)
        self.cluster_is_new = not image.brokers
        if image.cluster_id:
            return False
        fresh = cluster_id or uuid_to_text(random_uuid(self._random))
        created: list[Change] = [ClusterCreated(fresh), FeatureLevelChanged(LEVEL_MAX), *first]

        def create(image: Image) -> Decision[bool]:
            if image.cluster_id:
                return Decision([], False)
            return Decision([*created, *one_min_isr(image, self._settings().min_insync_replicas)], True)

        return await self._loop.decide(create)

    async def adopt_topics(self, found: Sequence[FoundTopic], next_producer_id: int = 0) -> list[str]:
        """Adopt topics whose logs were found without metadata, and allocate no producer id below
        `next_producer_id`; answers with the topics' names. Only in a new cluster.
        """
        if not self.cluster_is_new:
            return []
        return await self._loop.decide(
            lambda image: adopt_topics(image, found, self._node_id, next_producer_id)
        )

    async def replicas_lost(self, lost: Replicas, offline: Replicas) -> None:
        """Before this broker registers: take replicas that have lost records out of their in-sync sets, and
        say which are offline. OSError, NoSession or OutcomeUnknown when that cannot be written.
        """
        known = self._view.image.brokers.get(self._node_id)
        if known is None or not (lost or offline or known.offline):
            return
        count = await self._loop.decide(
            lambda image: replicas_lost(image, self._node_id, lost, offline, self._rules, complete=True)
        )
        if count:
            log.warning(
                "%d replicas here have lost records, and %d are offline: %d partitions changed for it",
                len(lost),
                len(offline),
                count,
            )

    def call_when_registered(self, registered: Callable[[Sequence[int]], Awaitable[None]]) -> None:
        """Call this after each registration, with the broker epochs since which the logs are complete."""
        self.presence.on_registered = registered

    async def register(
        self,
        endpoints: Mapping[str, tuple[str, int]],
        rack: str | None = None,
        complete_since: Sequence[int] = (),
        directories: Sequence[str] = (),
    ) -> int:
        """Register this broker with these endpoints (by listener name), and keep it registered; returns its
        broker epoch once the image has it. `complete_since`: broker epochs of earlier processes since which
        the logs have lost nothing. `directories`: the ids of its log directories.
        """
        broker = Registration(self._node_id, endpoints, rack, levels=LEVELS, directories=tuple(directories))
        limit_ms = self._settings().initial_broker_registration_timeout_ms
        epoch = await self.presence.join(self._loop, broker, limit_ms, complete_since=complete_since)
        image = self._view.image
        if (
            self.raise_level is not None
            and image.level < LEVEL_MAX
            and list(image.brokers) == [self._node_id]
        ):
            # It brought its metadata along, and nobody else reads them yet.
            await self.raise_level()
        return epoch

    # Running

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; NO_BROKER_EPOCH while it has none."""
        epoch = self.presence.broker_epoch
        return NO_BROKER_EPOCH if epoch is None else epoch

    def replicas_offline(self, offline: Replicas) -> None:
        """These replicas of this broker went offline while it runs: others lead them from now on."""
        if len(self._view.image.brokers) > 1:
            self._losses.report(offline)

    def replica_made_again(self, topic: str, index: int) -> None:
        """This replica of this broker was offline because its log is missing, and follows from now on."""
        self._losses.made_again(topic, index)

    # Stopping

    async def shut_down(self) -> None:
        """Hand this broker's leaderships over before it stops (controlled.shutdown.enable), as far as that is
        possible in limited time.
        """
        settings, timers = self._settings(), self.presence.timers
        others = any(node_id != self._node_id for node_id in self._view.image.brokers)
        if not (others and settings.controlled_shutdown_enable) or timers is None:
            return
        from moldau.broker.controller.shutdown import ControlledShutdown

        self._shutdown = ControlledShutdown(self._node_id, self._loop, self._rules, timers)
        await self._shutdown.run(
            settings.controlled_shutdown_max_retries * settings.controlled_shutdown_retry_backoff_ms
        )

    async def close(self) -> None:
        """Finish the append in flight, and close the store."""
        self._losses.stop()
        self.log_ends.stop()
        await self.presence.close()
        self._view.close()
        await self._store.close()
