"""The changes that metadata is made of, and replay: the only way from one image to the next.

A change is plain data with one method, `apply`, which edits a draft. A draft copies a table of the image the
first time that a change touches it, so that an append of a thousand topics costs one copy, not a thousand.

    image --replay(version, changes)--> image'

The same changes give the same image, on every broker and after every restart.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from moldau.broker.metadata.delegation_tokens import DelegationToken
from moldau.broker.metadata.image import (
    FIRST_LEVELS,
    BrokerState,
    ConfigKey,
    Image,
    LogEnd,
    PartitionState,
    ResourceType,
    TopicState,
)
from moldau.broker.metadata.mirrors import MirrorLink, MirrorTopic
from moldau.common.access.quota_entities import QuotaEntity
from moldau.common.credentials.scram_credential import ScramCredential
from moldau.common.protocol.acls import Acl


class Draft:
    """An image in the making."""

    __slots__ = (
        "_base",
        "_copied",
        "acls",
        "brokers",
        "configs",
        "delegation_tokens",
        "features",
        "mirror_links",
        "mirrors",
        "quotas",
        "scalars",
        "scram",
        "topic_names",
        "topics",
    )

    def __init__(self, base: Image) -> None:
        self._base = base
        self._copied: set[str] = set()
        self.brokers = base.brokers
        self.topics = base.topics
        self.topic_names = base.topic_names
        self.configs = base.configs
        self.acls = base.acls
        self.delegation_tokens = base.delegation_tokens
        self.scram = base.scram
        self.scalars: dict[str, str | int | bytes] = {}
        self.quotas = base.quotas
        self.features = base.features
        self.mirror_links = base.mirror_links
        self.mirrors = base.mirrors

    def edit_brokers(self) -> dict[int, BrokerState]:
        """The brokers, to be changed."""
        if "brokers" not in self._copied:
            self._copied.add("brokers")
            self.brokers = dict(self.brokers)
        return self.brokers  # type: ignore[return-value]

    def edit_topics(self) -> dict[str, TopicState]:
        """The topics by name, to be changed."""
        if "topics" not in self._copied:
            self._copied.add("topics")
            self.topics = dict(self.topics)
        return self.topics  # type: ignore[return-value]

    def edit_topic_names(self) -> dict[bytes, str]:
        """The names by topic id, to be changed."""
        if "topic_names" not in self._copied:
            self._copied.add("topic_names")
            self.topic_names = dict(self.topic_names)
        return self.topic_names  # type: ignore[return-value]

    def edit_configs(self) -> dict[ConfigKey, Mapping[str, str]]:
        """The settings by resource, to be changed."""
        if "configs" not in self._copied:
            self._copied.add("configs")
            self.configs = dict(self.configs)
        return self.configs  # type: ignore[return-value]

    def edit_acls(self) -> dict[Acl, None]:
        """The ACLs, to be changed."""
        if "acls" not in self._copied:
            self._copied.add("acls")
            self.acls = dict(self.acls)
        return self.acls  # type: ignore[return-value]

    def edit_delegation_tokens(self) -> dict[str, DelegationToken]:
        """The delegation tokens by id, to be changed."""
        if "delegation_tokens" not in self._copied:
            self._copied.add("delegation_tokens")
            self.delegation_tokens = dict(self.delegation_tokens)
        return self.delegation_tokens  # type: ignore[return-value]

    def edit_scram(self) -> dict[str, Mapping[str, ScramCredential]]:
        """The SCRAM credentials by user, to be changed."""
        if "scram" not in self._copied:
            self._copied.add("scram")
            self.scram = dict(self.scram)
        return self.scram  # type: ignore[return-value]

    def edit_quotas(self) -> dict[QuotaEntity, Mapping[str, float]]:
        """The client quotas, to be changed."""
        if "quotas" not in self._copied:
            self._copied.add("quotas")
            self.quotas = dict(self.quotas)
        return self.quotas  # type: ignore[return-value]

    def edit_mirror_links(self) -> dict[str, MirrorLink]:
        """The links to other clusters, to be changed."""
        if "mirror_links" not in self._copied:
            self._copied.add("mirror_links")
            self.mirror_links = dict(self.mirror_links)
        return self.mirror_links  # type: ignore[return-value]

    def edit_mirrors(self) -> dict[str, MirrorTopic]:
        """The mirror topics by name, to be changed."""
        if "mirrors" not in self._copied:
            self._copied.add("mirrors")
            self.mirrors = dict(self.mirrors)
        return self.mirrors  # type: ignore[return-value]

    def finish(self, version: int) -> Image:
        """The image, at this version."""
        return self._base._replace(
            version=version,
            brokers=self.brokers,
            topics=self.topics,
            topic_names=self.topic_names,
            configs=self.configs,
            acls=self.acls,
            delegation_tokens=self.delegation_tokens,
            scram=self.scram,
            quotas=self.quotas,
            features=self.features,
            mirror_links=self.mirror_links,
            mirrors=self.mirrors,
            **self.scalars,  # type: ignore[arg-type]
        )


class Change(Protocol):
    """One change. Its fields are what stores write (codec.py)."""

    def apply(self, draft: Draft) -> None:
        """Apply the change to the draft."""


def replay(image: Image, version: int, changes: Sequence[Change]) -> Image:
    """The image after these changes, which were appended together as `version`."""
    draft = Draft(image)
    for change in changes:
        change.apply(draft)
    return draft.finish(version)


class ClusterCreated(NamedTuple):
    """The cluster got its id; always the first change."""

    cluster_id: str

    def apply(self, draft: Draft) -> None:
        draft.scalars["cluster_id"] = self.cluster_id


class ControllerElected(NamedTuple):
    """A broker became the controller."""

    node_id: int
    controller_epoch: int

    def apply(self, draft: Draft) -> None:
        draft.scalars["controller_id"] = self.node_id
        draft.scalars["controller_epoch"] = self.controller_epoch


class FeatureLevelChanged(NamedTuple):
    """The cluster's metadata level was raised (levels.py)."""

    level: int

    def apply(self, draft: Draft) -> None:
        draft.scalars["level"] = self.level


class FeatureChanged(NamedTuple):
    """One of Kafka's features got another level (features.py)."""

    name: str
    level: int

    def apply(self, draft: Draft) -> None:
        draft.features = {**draft.features, self.name: self.level}


class BrokerRegistered(NamedTuple):
    """A broker registered its endpoints and may lead from now on. What it leads, other changes say; which of
    its replicas are offline, it has said itself before it registered.
    """

    node_id: int
    broker_epoch: int
    endpoints: Mapping[str, tuple[str, int]]
    rack: str | None
    levels: tuple[int, int] = FIRST_LEVELS
    directories: tuple[str, ...] = ()

    def apply(self, draft: Draft) -> None:
        known = draft.brokers.get(self.node_id)
        broker = BrokerState(
            self.node_id,
            self.broker_epoch,
            self.endpoints,
            self.rack,
            levels=self.levels,
            directories=self.directories,
        )
        if known is not None and known.offline:
            broker = broker._replace(offline=known.offline)
        draft.edit_brokers()[self.node_id] = broker


class LeadershipRenewed(NamedTuple):
    """A broker was restarted and stays leader of everything it led, in the next leader epoch. (It may have
    lost the end of its logs, and one epoch must never have two records at one offset.)

    One short change instead of a row for each partition, which for a single broker is every partition there
    is. Partitions for which something else was decided follow as `PartitionsChanged`, which overrides this.
    """

    node_id: int

    def apply(self, draft: Draft) -> None:
        for topic in draft.topics.values():
            if any(state.leader == self.node_id for state in topic.partitions):
                partitions = tuple([_renewed(state, self.node_id) for state in topic.partitions])
                draft.edit_topics()[topic.name] = TopicState(topic.name, topic.topic_id, partitions)


def _renewed(state: PartitionState, node_id: int) -> PartitionState:
    leader, leader_epoch, partition_epoch, *rest = state
    if leader != node_id:
        return state
    return PartitionState(leader, leader_epoch + 1, partition_epoch + 1, *rest)


class BrokerRegisteredAndElected(NamedTuple):
    """A registration as earlier versions wrote it: it renewed the broker's leadership as well.

    Only read, never written: who leads is the controller's decision, and a store that an older version wrote
    must still give the image that it gave then.
    """

    node_id: int
    broker_epoch: int
    endpoints: Mapping[str, tuple[str, int]]
    rack: str | None

    def apply(self, draft: Draft) -> None:
        BrokerRegistered(*self).apply(draft)
        LeadershipRenewed(self.node_id).apply(draft)


class BrokerFenced(NamedTuple):
    """A broker was fenced (it must not lead), or unfenced."""

    node_id: int
    fenced: bool

    def apply(self, draft: Draft) -> None:
        brokers = draft.edit_brokers()
        brokers[self.node_id] = brokers[self.node_id]._replace(fenced=self.fenced)


class BrokerShuttingDown(NamedTuple):
    """A broker began its shutdown; it lasts until it registers again."""

    node_id: int

    def apply(self, draft: Draft) -> None:
        brokers = draft.edit_brokers()
        brokers[self.node_id] = brokers[self.node_id]._replace(shutting_down=True)


class ReplicasOffline(NamedTuple):
    """These replicas of a broker are offline, and no others: (topic id, partitions) each."""

    node_id: int
    replicas: tuple[tuple[bytes, tuple[int, ...]], ...]

    def apply(self, draft: Draft) -> None:
        brokers = draft.edit_brokers()
        brokers[self.node_id] = brokers[self.node_id]._replace(offline=dict(self.replicas))


class LogEndsTold(NamedTuple):
    """A broker told where its doubtful replicas end: these, and no others, by topic id."""

    node_id: int
    ends: tuple[tuple[bytes, tuple[LogEnd, ...]], ...]

    def apply(self, draft: Draft) -> None:
        brokers = draft.edit_brokers()
        brokers[self.node_id] = brokers[self.node_id]._replace(log_ends=dict(self.ends))


class BrokerUnregistered(NamedTuple):
    """A broker was removed for good."""

    node_id: int

    def apply(self, draft: Draft) -> None:
        draft.edit_brokers().pop(self.node_id, None)


class TopicCreated(NamedTuple):
    """A topic was created, with its first partitions."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionState, ...]

    def apply(self, draft: Draft) -> None:
        draft.edit_topics()[self.name] = TopicState(self.name, self.topic_id, self.partitions)
        draft.edit_topic_names()[self.topic_id] = self.name


class TopicDeleted(NamedTuple):
    """A topic was deleted, with its settings, and what it mirrored."""

    name: str

    def apply(self, draft: Draft) -> None:
        topic = draft.edit_topics().pop(self.name)
        draft.edit_topic_names().pop(topic.topic_id)
        key = (ResourceType.TOPIC, self.name)
        if key in draft.configs:
            del draft.edit_configs()[key]
        if self.name in draft.mirrors:
            del draft.edit_mirrors()[self.name]


class PartitionsAdded(NamedTuple):
    """A topic got further partitions, behind those it has."""

    topic: str
    partitions: tuple[PartitionState, ...]

    def apply(self, draft: Draft) -> None:
        topic = draft.topics[self.topic]
        draft.edit_topics()[self.topic] = topic._replace(partitions=topic.partitions + self.partitions)


class PartitionChanged(NamedTuple):
    """A partition's leader, epochs, replicas or in-sync set changed."""

    topic: str
    partition: int
    state: PartitionState

    def apply(self, draft: Draft) -> None:
        topic = draft.topics[self.topic]
        partitions = (
            *topic.partitions[: self.partition],
            self.state,
            *topic.partitions[self.partition + 1 :],
        )
        draft.edit_topics()[self.topic] = topic._replace(partitions=partitions)


class PartitionsChanged(NamedTuple):
    """As `PartitionChanged`, for many partitions of a topic: (index, new state) each."""

    topic: str
    partitions: tuple[tuple[int, PartitionState], ...]

    def apply(self, draft: Draft) -> None:
        topic = draft.topics[self.topic]
        states = list(topic.partitions)
        for index, state in self.partitions:
            states[index] = state
        draft.edit_topics()[self.topic] = topic._replace(partitions=tuple(states))


class ConfigsChanged(NamedTuple):
    """Settings of one resource were set, or (None) removed."""

    resource_type: ResourceType
    resource_name: str
    values: Mapping[str, str | None]

    def apply(self, draft: Draft) -> None:
        key = (self.resource_type, self.resource_name)
        merged: dict[str, str | None] = {**draft.configs.get(key, {}), **self.values}
        kept = {name: value for name, value in merged.items() if value is not None}
        configs = draft.edit_configs()
        if kept:
            configs[key] = kept
        else:
            configs.pop(key, None)


class AclsCreated(NamedTuple):
    """ACLs were created; one that is there already stays as it is."""

    acls: tuple[Acl, ...]

    def apply(self, draft: Draft) -> None:
        draft.edit_acls().update(dict.fromkeys(self.acls))


class AclsDeleted(NamedTuple):
    """ACLs were deleted."""

    acls: tuple[Acl, ...]

    def apply(self, draft: Draft) -> None:
        held = draft.edit_acls()
        for acl in self.acls:
            held.pop(acl, None)


class DelegationTokenChanged(NamedTuple):
    """A delegation token was created, or expires at another time."""

    token: DelegationToken

    def apply(self, draft: Draft) -> None:
        draft.edit_delegation_tokens()[self.token.token_id] = self.token


class DelegationTokensRemoved(NamedTuple):
    """Delegation tokens were ended, or had expired."""

    token_ids: tuple[str, ...]

    def apply(self, draft: Draft) -> None:
        held = draft.edit_delegation_tokens()
        for token_id in self.token_ids:
            held.pop(token_id, None)


class ScramSecretMade(NamedTuple):
    """The cluster got the secret of the salts of users that do not exist; with the first credential."""

    secret: bytes

    def __repr__(self) -> str:
        return "ScramSecretMade([hidden])"

    def apply(self, draft: Draft) -> None:
        draft.scalars["scram_secret"] = self.secret


class ScramCredentialSet(NamedTuple):
    """A user got a SCRAM credential, or another one."""

    user: str
    mechanism: str
    credential: ScramCredential

    def apply(self, draft: Draft) -> None:
        own = draft.scram.get(self.user, {})
        draft.edit_scram()[self.user] = {**own, self.mechanism: self.credential}


class ScramCredentialRemoved(NamedTuple):
    """A user's SCRAM credential was removed."""

    user: str
    mechanism: str

    def apply(self, draft: Draft) -> None:
        kept = {name: each for name, each in draft.scram.get(self.user, {}).items() if name != self.mechanism}
        users = draft.edit_scram()
        if kept:
            users[self.user] = kept
        else:
            users.pop(self.user, None)


class ClientQuotasChanged(NamedTuple):
    """Quotas of one entity were set, or (None) removed."""

    entity: QuotaEntity
    values: Mapping[str, float | None]

    def apply(self, draft: Draft) -> None:
        merged: dict[str, float | None] = {**draft.quotas.get(self.entity, {}), **self.values}
        kept = {key: value for key, value in merged.items() if value is not None}
        quotas = draft.edit_quotas()
        if kept:
            quotas[self.entity] = kept
        else:
            quotas.pop(self.entity, None)


class ProducerIdsAllocated(NamedTuple):
    """A broker took a block of producer ids; the next block starts at `next_producer_id`."""

    node_id: int
    next_producer_id: int

    def apply(self, draft: Draft) -> None:
        draft.scalars["next_producer_id"] = self.next_producer_id
