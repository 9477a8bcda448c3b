"""The controller loop: decide on the current image, append the changes, publish the new image.

One thing is decided at a time, since each decision builds on the image that the one before led to. A decision
that another broker's append overtook is made again on the newer image. A caller that goes away does not
interrupt an append: it runs in a task of its own.

    handler --> decide(image) --> store.append_if(version, changes) --> replay --> subscribers --> answer

The answer leaves when this broker is in step with the new image: the folders of a new topic's partitions are
there. The next decision does not wait for that.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from moldau.controller.adoption import FoundTopic, adopt_topics
from moldau.controller.configs import AlterResource, alter_configs
from moldau.controller.decision import Decision, Outcome, Steps, decided
from moldau.controller.election import ElectionType, Results, elect_leaders
from moldau.controller.in_sync import Rules
from moldau.controller.internal import auto_topic
from moldau.controller.membership import take_seat
from moldau.controller.partitions import AlterPartition, MorePartitions, alter_partitions, create_partitions
from moldau.controller.reassignment import Move, reassign
from moldau.controller.topics import DeletedTopic, NewTopic, TopicResult, create_topics, delete_topics
from moldau.core.ids import random_uuid, uuid_to_text
from moldau.core.settings.broker import BrokerSettings
from moldau.core.settings.sources import StaticSettings
from moldau.core.slow_lane import SlowLane
from moldau.metadata.changes import Change, ClusterCreated, ProducerIdsAllocated, replay
from moldau.metadata.configs import effective_broker_settings, topic_settings
from moldau.metadata.image import (
    INTERNAL_TOPICS,
    TRANSACTION_STATE_TOPIC,
    Image,
    PartitionState,
)
from moldau.metadata.store import NO_BROKER_EPOCH, MetadataStore, Registration, VersionConflict
from moldau.metadata.view import MetadataView
from moldau.protocol.errors import ErrorCode

log = logging.getLogger("moldau.controller")

PRODUCER_ID_BLOCK = 1000
R = TypeVar("R")


class Controller:
    """Decides for the cluster, and writes down what it decided."""

    def __init__(
        self,
        node_id: int,
        store: MetadataStore,
        view: MetadataView,
        static_settings: StaticSettings,
        source: random.Random,
        lane: SlowLane | None = None,
    ) -> None:
        self._lane = lane
        self.node_id = node_id
        self.view = view
        self.static_settings = static_settings
        self._store = store
        self._random = source
        self._deciding = asyncio.Lock()
        self._tasks: set[asyncio.Task[object]] = set()
        self._pending: list[asyncio.Future[None]] = []
        """What this broker's parts have still to do for the newest image."""
        self._uncreated: dict[str, str] = {}
        """Internal topics that could not be made, and the cause that was logged."""
        self.cluster_is_new = False
        """Whether no broker was ever registered: a new cluster, or a data folder that Kafka wrote."""

    @property
    def settings(self) -> BrokerSettings:
        """The broker's settings in effect."""
        return effective_broker_settings(self.view.image, self.static_settings.broker, self.node_id)

    def _rules(self, topic: str) -> Rules:
        settings = topic_settings(self.view.image, self.static_settings.broker, topic)
        return Rules(settings.min_insync_replicas, settings.unclean_leader_election_enable)

    # Starting and stopping

    async def open(self, cluster_id: str | None = None) -> None:
        """Open the store and publish what it holds. MetadataStoreError when it cannot be.

        A new cluster gets `cluster_id` (that of meta.properties, where Kafka wrote the folder), else a random
        one.
        """
        image = await self._store.open()
        self.view.publish(image, ())
        await self._store.follow(image.version, self._delivered)
        self.cluster_is_new = not image.brokers
        if not self.view.image.cluster_id:
            await self._append([ClusterCreated(cluster_id or uuid_to_text(random_uuid(self._random)))])

    async def adopt_topics(self, found: Sequence[FoundTopic], next_producer_id: int = 0) -> list[str]:
        """Take over topics whose logs were found without metadata, and give no producer id below
        `next_producer_id`; answers with the topics' names. Only in a new cluster."""
        if not self.cluster_is_new:
            return []
        return await self._decide(lambda image: adopt_topics(image, found, self.node_id, next_producer_id))

    async def register(
        self,
        endpoints: Mapping[str, tuple[str, int]],
        rack: str | None = None,
        previous_broker_epoch: int = NO_BROKER_EPOCH,
    ) -> int:
        """Make this broker known under these addresses (by listener name); gives its broker epoch.

        `previous_broker_epoch`: that of its last life, if it stopped cleanly.
        """
        broker = Registration(self.node_id, endpoints, rack, previous_broker_epoch)
        broker_epoch = await self._store.register_broker(broker)
        live = {self.node_id: broker._replace(broker_epoch=broker_epoch)}
        controller_epoch = await self._store.elect_controller(self.node_id)
        if controller_epoch is not None:
            await self._decide(
                lambda image: take_seat(image, self.node_id, controller_epoch, live, self._rules)
            )
        return broker_epoch

    async def close(self) -> None:
        """Finish what is being appended, and give the store back."""
        async with self._deciding:
            await self._store.close()

    # What handlers ask for

    async def create_topics(
        self, asked: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicResult]:
        """Create topics; a result for each name, in the order asked."""
        return await self._decide(
            lambda image: create_topics(image, asked, self.settings, self._random),
            lambda failure: [TopicResult(name, failure) for name in dict.fromkeys(t.name for t in asked)],
            validate_only=validate_only,
        )

    async def auto_create_topics(self, names: Sequence[str]) -> list[TopicResult]:
        """Create topics that somebody needs, with default counts; internal ones by their own settings."""
        results = await self._decide(
            lambda image: self._auto_create(image, names),
            lambda failure: [TopicResult(name, failure) for name in names],
        )
        for result in results:
            if result.name in INTERNAL_TOPICS:
                self._tell_internal(result.name, result.outcome)
        return results

    def _tell_internal(self, name: str, outcome: Outcome) -> None:
        """Log why an internal topic cannot be made, once for each cause: without it no group or transaction
        works, and clients, who ask again and again, see only that there is no coordinator.
        """
        failed = outcome.failed and outcome.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS
        cause = f"{outcome.error_code.name}: {outcome.message or 'no more is known'}" if failed else None
        if cause is None:
            self._uncreated.pop(name, None)
        elif self._uncreated.get(name) != cause:
            self._uncreated[name] = cause
            kind = "transactions" if name == TRANSACTION_STATE_TOPIC else "consumer groups"
            log.error("%s cannot be made, and so %s cannot work: %s", name, kind, cause)

    def _auto_create(self, image: Image, names: Sequence[str]) -> Steps[list[TopicResult]]:
        settings = self.settings
        asked = []
        for name in names:
            asked.append(auto_topic(image, name, settings))
            yield
        return (yield from create_topics(image, asked, settings, self._random))

    async def delete_topics(self, asked: Sequence[tuple[str | None, bytes]]) -> list[DeletedTopic]:
        """Delete topics, each by name or (name None) by id."""
        return await self._decide(
            lambda image: delete_topics(image, asked, enabled=self.settings.delete_topic_enable),
            lambda failure: [
                DeletedTopic(name, topic_id, failure) for name, topic_id in dict.fromkeys(asked)
            ],
        )

    async def create_partitions(
        self, asked: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> list[tuple[str, Outcome]]:
        """Add partitions to topics."""
        return await self._decide(
            lambda image: create_partitions(image, asked, self._random),
            lambda failure: [(name, failure) for name in dict.fromkeys(more.topic for more in asked)],
            validate_only=validate_only,
        )

    async def alter_configs(
        self, asked: Sequence[AlterResource], *, validate_only: bool = False
    ) -> list[tuple[AlterResource, Outcome]]:
        """Change settings of topics, brokers and groups."""
        return await self._decide(
            lambda image: alter_configs(image, asked, self.settings),
            lambda failure: [(one, failure) for one in asked],
            validate_only=validate_only,
        )

    async def elect_leaders(self, kind: ElectionType, asked: dict[str, list[int]] | None) -> Results:
        """Elect leaders for these partitions, or for all (None)."""
        return await self._decide(
            lambda image: elect_leaders(image, kind, asked, self._rules),
            lambda failure: {
                topic: [(index, failure) for index in indexes] for topic, indexes in (asked or {}).items()
            },
        )

    async def reassign(self, asked: Sequence[Move]) -> list[tuple[Move, Outcome]]:
        """Give partitions other replicas, as far as that needs no copying."""
        return await self._decide(
            lambda image: reassign(image, asked),
            lambda failure: [(move, failure) for move in asked],
        )

    async def alter_partitions(
        self, node_id: int, broker_epoch: int, asked: Sequence[AlterPartition]
    ) -> list[tuple[AlterPartition, Outcome, PartitionState | None]]:
        """Change in-sync sets, as their leader asks for."""
        return await self._decide(
            lambda image: alter_partitions(image, node_id, broker_epoch, asked),
            lambda failure: [(alter, failure, None) for alter in asked],
        )

    async def allocate_producer_ids(self, count: int = PRODUCER_ID_BLOCK) -> range:
        """A block of producer ids that nobody was ever given; OSError when it cannot be written down."""

        def decide(image: Image) -> Decision[range]:
            block = range(image.next_producer_id, image.next_producer_id + count)
            return Decision([ProducerIdsAllocated(self.node_id, block.stop)], block)

        return await self._decide(decide)

    # The loop

    async def _decide(
        self,
        decide: Callable[[Image], Decision[R] | Steps[R]],
        failed: Callable[[Outcome], R] | None = None,
        *,
        validate_only: bool = False,
    ) -> R:
        if validate_only:
            return (await self._decided(decide)).answer
        task = asyncio.ensure_future(self._run(decide))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except OSError as error:
            if failed is None:
                raise
            message = f"The change could not be written down: {error}"
            return failed(Outcome(ErrorCode.KAFKA_STORAGE_ERROR, message))

    async def _decided(self, decide: Callable[[Image], Decision[R] | Steps[R]]) -> Decision[R]:
        outcome = decide(self.view.image)
        if isinstance(outcome, Decision):
            return outcome
        return decided(outcome) if self._lane is None else await self._lane.slices().run(outcome)

    async def _run(self, decide: Callable[[Image], Decision[R] | Steps[R]]) -> R:
        async with self._deciding:
            while True:
                decision = await self._decided(decide)
                if not decision.changes:
                    return decision.answer
                try:
                    await self._append(decision.changes)
                except VersionConflict as conflict:
                    log.info("%s; deciding again", conflict)
                    continue
                pending = self._pending
                break
        if pending:
            await asyncio.wait(pending)
        return decision.answer

    async def _append(self, changes: Sequence[Change]) -> None:
        await self._store.append_if(self.view.image.version, changes)

    def _delivered(self, version: int, changes: Sequence[Change]) -> None:
        self._pending = self.view.publish(replay(self.view.image, version, changes), changes)
