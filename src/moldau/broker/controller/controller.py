"""The controller's API for the rest of the broker: admin requests, in-sync changes, producer ids.

Each is a pure decision on the image (the other files of this folder), carried out by the decision loop
(loop.py). Any broker may make these decisions: an append that conflicts with another broker's is decided
again. What only the elected controller decides (fencing, and the leaders that follow from it) starts in
presence.py.
"""

import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from moldau.broker.controller.brokers import raise_level, unregister_broker
from moldau.broker.controller.configs import AlterResource, alter_configs
from moldau.broker.controller.decision import DONE, Decision, MutationLimit, Outcome, Steps
from moldau.broker.controller.delegation_tokens import (
    CreatedToken,
    NewToken,
    Prolonged,
    create_token,
    expire_token,
    renew_token,
)
from moldau.broker.controller.election import ElectionType, Results, elect_leaders
from moldau.broker.controller.features import update_features
from moldau.broker.controller.in_sync import NONE_ELIGIBLE, Rules
from moldau.broker.controller.internal import auto_topic
from moldau.broker.controller.loop import DecisionLoop
from moldau.broker.controller.membership import review_eligible
from moldau.broker.controller.partitions import (
    AlterPartition,
    MorePartitions,
    alter_partitions,
    create_partitions,
)
from moldau.broker.controller.policies import Policies, Verdicts
from moldau.broker.controller.reassignment import Move, reassign
from moldau.broker.controller.rebalancing import Rebalancing
from moldau.broker.controller.this_broker import ThisBroker
from moldau.broker.controller.token_expiry import TokenExpiry
from moldau.broker.controller.topics import (
    DeletedTopic,
    NewTopic,
    TopicResult,
    create_topics,
    delete_topics,
    none_deleted,
)
from moldau.broker.metadata.changes import ProducerIdsAllocated
from moldau.broker.metadata.configs import effective_broker_settings, topic_settings
from moldau.broker.metadata.features import keeps_eligible
from moldau.broker.metadata.image import (
    INTERNAL_TOPICS,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    Image,
    PartitionState,
)
from moldau.broker.metadata.levels import LEVEL_MAX, LOG_ENDS_LEVEL
from moldau.broker.metadata.store import (
    Event,
    MetadataStore,
    NoSession,
    OutcomeUnknown,
    StoreStatus,
)
from moldau.broker.metadata.view import MetadataView
from moldau.broker.security.tokens.signing import TokenSigner
from moldau.common.core.clock import Clock
from moldau.common.core.slow_lane import SlowLane, all_steps
from moldau.common.core.timers import Timers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.sources import StaticSettings

if TYPE_CHECKING:
    from moldau.broker.controller.acls import Deleted
    from moldau.broker.controller.quotas import AlterQuotas
    from moldau.broker.controller.scram_users import ScramAlteration
    from moldau.common.protocol.acls import Acl, AclFilter

log = logging.getLogger("moldau.controller")

R = TypeVar("R")

PRODUCER_ID_BLOCK = 1000


class Controller:
    """Makes decisions about the cluster and appends them to the metadata store."""

    def __init__(
        self,
        node_id: int,
        store: MetadataStore,
        view: MetadataView,
        static_settings: StaticSettings,
        source: random.Random,
        lane: SlowLane | None = None,
        timers: Timers | None = None,
        clock: Clock | None = None,
        policies: Policies | None = None,
        *,
        in_cluster: bool = False,
    ) -> None:
        """`clock`: for the end of delegation tokens, which without it stay until they are removed.
        `in_cluster`: there may be other brokers. Then internal topics get all the replicas that the settings
        ask for, or are not created.
        """
        self._policies = policies
        self.node_id = node_id
        self.view = view
        self.static_settings = static_settings
        self._store = store
        self._random = source
        self._lane = lane
        self._loop = DecisionLoop(store, view, lane, self._heard, timers, self.store_status)
        self.decide = self._loop.decide
        """Make a decision, and append its changes."""
        self.this_broker = ThisBroker(
            node_id, store, view, self._loop, self.rules, lambda: self.settings, source, timers
        )
        if in_cluster:
            self.this_broker.raise_level = partial(self.raise_level, LEVEL_MAX, for_client=False)

        rebalancing = Rebalancing(self._loop, self.rules, lambda: self.settings)
        expiry = None if clock is None else TokenExpiry(self._loop, clock, lambda: self.settings)

        def seat_changed(epoch: int | None) -> None:
            rebalancing.seat_changed(epoch, presence.timers)
            if expiry is not None:
                expiry.seat_changed(epoch, presence.timers)

        presence = self.this_broker.presence
        presence.on_seat = seat_changed
        self.token_signer = TokenSigner(static_settings.broker.delegation_token_secret_key)
        self.uncreated: dict[str, str] = {}
        """Internal topics that could not be made, and the cause that was logged."""
        self.in_cluster = in_cluster

    @property
    def settings(self) -> BrokerSettings:
        """The broker's settings in effect."""
        return effective_broker_settings(self.view.image, self.static_settings.broker, self.node_id)

    def rules(self, topic: str) -> Rules:
        """How leaders and in-sync sets of this topic are decided now."""
        return self._rules_in(self.view.image, topic)

    def _rules_in(self, image: Image, topic: str) -> Rules:
        settings = topic_settings(image, self.static_settings.broker, topic)
        return Rules(
            settings.min_insync_replicas if keeps_eligible(image) else NONE_ELIGIBLE,
            settings.unclean_leader_election_enable,
            image.level >= LOG_ENDS_LEVEL,
        )

    def store_status(self) -> StoreStatus | None:
        """How the metadata store is reached; None: it is in this process."""
        status = getattr(self._store, "status", None)
        return None if status is None else cast(StoreStatus, status())

    def _heard(self, event: Event) -> None:
        self.this_broker.heard(event)

    async def confirm(self) -> bool:
        """Find out what has been decided up to now; true once this broker knows, false if its session is over
        or the store could not be asked.
        """
        return await self._loop.confirm()

    # What handlers ask for

    async def _decide_for_user(
        self,
        decide: Callable[[Image], Decision[R] | Steps[R]],
        failed: Callable[[Outcome], R],
        *,
        validate_only: bool = False,
    ) -> R:
        """As `decide`. What another broker has answered before is known to this decision: an administrator
        who deletes a topic at one broker and makes it at another is not told that it exists. While the store
        is away, who waits for it is told.
        """
        return await self.decide(
            decide, failed, validate_only=validate_only, newest=self.in_cluster, for_client=True
        )

    async def create_topics(
        self,
        asked: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        limit: MutationLimit | None = None,
    ) -> list[TopicResult]:
        """Create topics; a result for each name, in the order asked. `limit`: the client's quota."""
        charged = None if validate_only else limit

        def failed(failure: Outcome) -> list[TopicResult]:
            return [TopicResult(name, failure) for name in dict.fromkeys(topic.name for topic in asked)]

        return await self._with_verdicts(
            lambda verdicts: self._decide_for_user(
                lambda image: create_topics(image, asked, self.settings, self._random, charged, verdicts),
                failed,
                validate_only=validate_only,
            ),
            failed,
        )

    async def _with_verdicts(
        self, decide: Callable[[Verdicts | None], Awaitable[R]], failed: Callable[[Outcome], R]
    ) -> R:
        """Make a decision, with what the user's policies say, if there are any."""
        return await (decide(None) if self._policies is None else self._policies.decide(decide, failed))

    async def auto_create_topics(
        self, names: Sequence[str], limit: MutationLimit | None = None
    ) -> list[TopicResult]:
        """Create missing topics with default counts; internal ones by their own settings."""

        def failed(failure: Outcome) -> list[TopicResult]:
            return [TopicResult(name, failure) for name in names]

        results = await self._with_verdicts(
            lambda verdicts: self.decide(
                lambda image: self._auto_create(image, names, limit, verdicts), failed
            ),
            failed,
        )
        for result in results:
            if result.name in INTERNAL_TOPICS:
                self._log_uncreated(result.name, result.outcome)
        return results

    def _log_uncreated(self, name: str, outcome: Outcome) -> None:
        """Log why an internal topic cannot be created, once for each cause: without it no group or
        transaction works, and clients only see COORDINATOR_NOT_AVAILABLE.
        """
        failed = outcome.failed and outcome.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS
        cause = f"{outcome.error_code.name}: {outcome.message or 'no details'}" if failed else None
        if cause is None:
            self.uncreated.pop(name, None)
        elif self.uncreated.get(name) != cause:
            self.uncreated[name] = cause
            kinds = {TRANSACTION_STATE_TOPIC: "transactions", SHARE_STATE_TOPIC: "share groups"}
            kind = kinds.get(name, "consumer groups")
            log.error("%s cannot be created, so %s do not work: %s", name, kind, cause)

    def _auto_create(
        self,
        image: Image,
        names: Sequence[str],
        limit: MutationLimit | None,
        verdicts: Verdicts | None,
    ) -> Steps[list[TopicResult]]:
        settings = self.settings
        asked = []
        for name in names:
            asked.append(auto_topic(image, name, settings, in_cluster=self.in_cluster))
            yield
        return (yield from create_topics(image, asked, settings, self._random, limit, verdicts))

    async def delete_topics(
        self,
        asked: Sequence[tuple[str | None, bytes]],
        limit: MutationLimit | None = None,
        may_delete: Callable[[str], bool] = lambda name: True,
    ) -> list[DeletedTopic]:
        """Delete topics, each by name or (name None) by id. `may_delete`: the client's right to the topic of
        an id."""
        failures: list[Outcome] = []

        def failed(failure: Outcome) -> list[DeletedTopic]:
            failures.append(failure)
            return []

        results = await self._decide_for_user(
            lambda image: delete_topics(
                image, asked, enabled=self.settings.delete_topic_enable, limit=limit, may_delete=may_delete
            ),
            failed,
        )
        if failures:
            rows = none_deleted(asked, failures[0])  # half a million may have been asked for
            results = all_steps(rows) if self._lane is None else await self._lane.slices().run(rows)
        return results

    async def create_partitions(
        self,
        asked: Sequence[MorePartitions],
        *,
        validate_only: bool = False,
        limit: MutationLimit | None = None,
    ) -> list[tuple[str, Outcome]]:
        """Add partitions to topics."""
        return await self._decide_for_user(
            lambda image: create_partitions(image, asked, self._random, None if validate_only else limit),
            lambda failure: [(name, failure) for name in dict.fromkeys(more.topic for more in asked)],
            validate_only=validate_only,
        )

    async def alter_configs(
        self, asked: Sequence[AlterResource], *, validate_only: bool = False
    ) -> list[tuple[AlterResource, Outcome]]:
        """Change settings of topics, brokers and groups."""

        def failed(failure: Outcome) -> list[tuple[AlterResource, Outcome]]:
            return [(one, failure) for one in asked]

        return await self._with_verdicts(
            lambda verdicts: self._decide_for_user(
                lambda image: self._alter_configs(image, asked, verdicts), failed, validate_only=validate_only
            ),
            failed,
        )

    async def alter_scram_users(self, asked: "Sequence[ScramAlteration]") -> list[tuple[str, Outcome]]:
        """Set or remove users' SCRAM credentials; an outcome for each user."""
        from moldau.broker.controller.scram_users import alter_scram_users

        return await self._decide_for_user(
            lambda image: alter_scram_users(image, asked, self._random),
            lambda failure: [(user, failure) for user in dict.fromkeys(one.user for one in asked)],
        )

    async def alter_quotas(
        self, asked: "Sequence[AlterQuotas]", *, validate_only: bool = False
    ) -> "list[tuple[AlterQuotas, Outcome]]":
        """Change quotas of clients; one result for each entity."""
        from moldau.broker.controller.quotas import alter_quotas

        return await self._decide_for_user(
            lambda image: alter_quotas(image, asked),
            lambda failure: [(one, failure) for one in asked],
            validate_only=validate_only,
        )

    def _alter_configs(
        self, image: Image, asked: Sequence[AlterResource], verdicts: Verdicts | None
    ) -> Steps[list[tuple[AlterResource, Outcome]]]:
        decision = yield from alter_configs(image, asked, self.settings, verdicts)
        return (yield from review_eligible(image, decision, self._rules_in))

    async def create_delegation_token(self, asked: NewToken, now_ms: int) -> CreatedToken:
        """Create a delegation token."""
        return await self._decide_for_user(
            lambda image: create_token(image, asked, self.settings, now_ms, self._random), CreatedToken
        )

    async def renew_delegation_token(
        self, hmac: bytes, principal: str, period_ms: int, now_ms: int
    ) -> Prolonged:
        """Let a delegation token expire later."""
        return await self._decide_for_user(
            lambda image: renew_token(
                image, self.token_signer, hmac, principal, period_ms, self.settings, now_ms
            ),
            Prolonged,
        )

    async def expire_delegation_token(
        self, hmac: bytes, principal: str, period_ms: int, now_ms: int
    ) -> Prolonged:
        """Let a delegation token expire in `period_ms`; a negative one: at once."""
        return await self._decide_for_user(
            lambda image: expire_token(image, self.token_signer, hmac, principal, period_ms, now_ms),
            Prolonged,
        )

    async def create_acls(self, asked: "Sequence[Acl]") -> list[Outcome]:
        """Create ACLs; an outcome for each, in order."""
        from moldau.broker.controller.acls import create_acls

        return await self._decide_for_user(
            lambda image: create_acls(image, asked), lambda failure: [failure] * len(asked)
        )

    async def delete_acls(self, filters: "Sequence[AclFilter]") -> "Deleted":
        """Delete the ACLs that filters match; what each has deleted, in order."""
        from moldau.broker.controller.acls import delete_acls

        found: dict[int, dict[Acl, None]] = {}
        return await self._decide_for_user(
            lambda image: delete_acls(image, filters, found), lambda failure: [(failure, ())] * len(filters)
        )

    async def elect_leaders(
        self, kind: ElectionType, asked: dict[str, list[int]] | None
    ) -> tuple[Outcome, Results]:
        """Elect leaders for these partitions, or for all (None), whose failure has no rows: the outcome of
        the whole, then those of partitions."""
        return await self._decide_for_user(
            lambda image: self._elect_leaders(image, kind, asked),
            lambda failure: (
                failure if asked is None else DONE,
                {topic: [(index, failure) for index in indexes] for topic, indexes in (asked or {}).items()},
            ),
        )

    def _elect_leaders(
        self, image: Image, kind: ElectionType, asked: dict[str, list[int]] | None
    ) -> Steps[tuple[Outcome, Results]]:
        decision = yield from elect_leaders(image, kind, asked, self.rules)
        return Decision(decision.changes, (DONE, decision.answer), decision.earlier)

    async def unregister_broker(self, node_id: int) -> Outcome:
        """Remove a broker that is gone for good."""
        return await self._decide_for_user(
            lambda image: unregister_broker(image, node_id, self.this_broker.presence.live),
            lambda failure: failure,
        )

    async def raise_level(
        self, level: int, *, validate_only: bool = False, for_client: bool = True
    ) -> Outcome:
        """Raise the cluster's metadata level (metadata/levels.py). `for_client`: who asked is told when the
        store is away; the start of a broker waits for it.
        """
        before = self.view.image.level
        outcome = await self.decide(
            lambda image: raise_level(image, level, self.this_broker.presence.live),
            lambda failure: failure,
            validate_only=validate_only,
            for_client=for_client,
        )
        if not (outcome.failed or validate_only or level == before):
            log.info("the metadata level is %d, it was %d", level, before)
        return outcome

    async def update_features(self, levels: Mapping[str, int], *, validate_only: bool = False) -> Outcome:
        """Give features these levels, Moldau's metadata level among them: all, or none."""
        before = self.view.image
        static_min_isr = self.static_settings.broker.min_insync_replicas
        outcome = await self._decide_for_user(
            lambda image: update_features(image, levels, self.this_broker.presence.live, static_min_isr),
            lambda failure: failure,
            validate_only=validate_only,
        )
        if not (outcome.failed or validate_only):
            log.info(
                "levels of features: %s (the metadata level was %d)",
                ", ".join(f"{name}={level}" for name, level in levels.items()),
                before.level,
            )
        return outcome

    async def reassign(
        self, asked: Sequence[Move], *, allow_factor_change: bool = True
    ) -> list[tuple[Move, Outcome]]:
        """Begin or cancel reassignments; what needs no copying is completed at once."""
        return await self._decide_for_user(
            lambda image: reassign(image, asked, self.rules, allow_factor_change=allow_factor_change),
            lambda failure: [(move, failure) for move in asked],
        )

    async def alter_partitions(
        self, node_id: int, broker_epoch: int, asked: Sequence[AlterPartition]
    ) -> list[tuple[AlterPartition, Outcome, PartitionState | None]]:
        """Change in-sync sets, as their leader asks for."""
        return await self.decide(
            lambda image: alter_partitions(image, node_id, broker_epoch, asked, self.rules),
            lambda failure: [(alter, failure, None) for alter in asked],
        )

    async def allocate_producer_ids(self, count: int = PRODUCER_ID_BLOCK) -> range:
        """A block of producer ids that was never allocated before; OSError when it cannot be appended."""

        def decide(image: Image) -> Decision[range]:
            block = range(image.next_producer_id, image.next_producer_id + count)
            return Decision([ProducerIdsAllocated(self.node_id, block.stop)], block)

        try:
            return await self.decide(decide)
        except (NoSession, OutcomeUnknown) as error:
            raise OSError(str(error)) from error
