"""The cluster's metadata at one version, as an immutable value.

An image is never edited. `changes.replay` makes the next one from it; what did not change is shared between
both, so that `old.topics["a"] is new.topics["a"]` says that nothing about the topic changed, and `old.configs
is new.configs` that no setting did.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from moldau.broker.metadata.delegation_tokens import DelegationTokens
from moldau.broker.metadata.mirrors import NO_LINKS, NO_MIRRORS, MirrorLinks, Mirrors
from moldau.common.access.quota_entities import Quotas
from moldau.common.credentials.scram_credential import ScramCredential
from moldau.common.protocol.acls import Acls

NO_LEADER = -1
NO_NODE = -1

GROUP_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC})


class ResourceType(IntEnum):
    """What a setting belongs to, numbered as in the Kafka protocol."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class PartitionState(NamedTuple):
    """One partition. The first replica is the preferred leader.

    `elr`: the eligible leader replicas (KIP-966). They left the in-sync set while it was smaller than
    `min.insync.replicas`, so that the high watermark has stood still since, and each still has every
    committed record. While a partition has a leader, that leader is in sync.

    `doubtful`: while nobody leads and none is in sync, those of the last in-sync and eligible replicas whose
    machines have lost power since: some of them has every committed record that is left, and which of them is
    told by the ends of their logs (controller/log_ends.py). Kafka calls them the last known ELR.

    While eligible replicas are switched off (metadata/features.py), both are empty, and the last in-sync
    replicas stay in `isr` without a leader.

    While a reassignment is under way (KIP-455), `original` and `target` are the replicas before and after it,
    and `replicas` are those of `target`, then those that will be removed, in the order of their ids (as in
    Kafka). Otherwise both are empty.
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    original: tuple[int, ...] = ()
    target: tuple[int, ...] = ()
    doubtful: tuple[int, ...] = ()

    @property
    def adding(self) -> tuple[int, ...]:
        """The replicas that a reassignment adds."""
        return tuple(sorted(node for node in self.target if node not in self.original))

    @property
    def removing(self) -> tuple[int, ...]:
        """The replicas that a reassignment will remove once its target is in sync."""
        return tuple(sorted(node for node in self.original if node not in self.target))

    @property
    def replication_factor(self) -> int:
        """How many replicas the partition has, without those that a reassignment is adding."""
        return len(self.original or self.replicas)

    @classmethod
    def fresh(cls, replicas: tuple[int, ...], isr: tuple[int, ...] | None = None) -> "PartitionState":
        """A new partition on these replicas; its leader is the first that is in sync."""
        in_sync = replicas if isr is None else isr
        return cls(in_sync[0] if in_sync else NO_LEADER, 0, 0, replicas, in_sync)


class TopicState(NamedTuple):
    """One topic and its partitions, by index."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionState, ...]

    @property
    def internal(self) -> bool:
        """Whether the topic belongs to the broker itself."""
        return self.name in INTERNAL_TOPICS


FIRST_LEVELS = (1, 1)
"""The metadata levels of a broker that did not tell any (metadata/levels.py)."""

OfflineReplicas = Mapping[bytes, tuple[int, ...]]
"""Partitions, by topic id."""


class LogEnd(NamedTuple):
    """Where a replica's log ends. Valid as long as the partition's leader epoch is `asked_epoch`."""

    partition: int
    asked_epoch: int
    log_epoch: int
    """The leader epoch of its last record."""
    end_offset: int


class BrokerState(NamedTuple):
    """One registered broker. A fenced one is known, but must not lead.

    `shutting_down`: it lives, hands its leaderships over, and enters no in-sync set (KIP-841). `offline`: its
    replicas that it cannot serve, because their log directory or log is lost. `levels`: the lowest and the
    highest metadata level that it reads. `directories`: the ids of its log directories. `log_ends`: by topic
    id, where its doubtful replicas end; until it registers again.
    """

    node_id: int
    broker_epoch: int
    endpoints: Mapping[str, tuple[str, int]]
    rack: str | None = None
    fenced: bool = False
    shutting_down: bool = False
    offline: OfflineReplicas = MappingProxyType({})
    levels: tuple[int, int] = FIRST_LEVELS
    directories: tuple[str, ...] = ()
    log_ends: Mapping[bytes, tuple[LogEnd, ...]] = MappingProxyType({})

    @property
    def active(self) -> bool:
        """Whether it may be elected, enter in-sync sets, and get new replicas."""
        return not (self.fenced or self.shutting_down)

    def has_offline(self, topic_id: bytes, index: int) -> bool:
        """Whether its replica of this partition is offline."""
        return bool(self.offline) and index in self.offline.get(topic_id, ())


ConfigKey = tuple[ResourceType, str]
Configs = Mapping[ConfigKey, Mapping[str, str]]

ScramUsers = Mapping[str, Mapping[str, ScramCredential]]
"""Users' SCRAM credentials, by name and mechanism; every user here has one at least."""


class Image(NamedTuple):
    """Everything at one version. `topic_names` leads from topic id to name; version 0 is the empty image."""

    version: int = 0
    cluster_id: str = ""
    controller_id: int = NO_NODE
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerState] = MappingProxyType({})
    topics: Mapping[str, TopicState] = MappingProxyType({})
    topic_names: Mapping[bytes, str] = MappingProxyType({})
    configs: Configs = MappingProxyType({})
    next_producer_id: int = 0
    level: int = 1
    """The metadata level (metadata/levels.py)."""
    acls: Acls = MappingProxyType({})
    delegation_tokens: DelegationTokens = MappingProxyType({})
    scram: ScramUsers = MappingProxyType({})
    scram_secret: bytes = b""
    """Of which the salts of names that do not exist are made (security/login/scram.py)."""
    quotas: Quotas = MappingProxyType({})
    features: Mapping[str, int] = MappingProxyType({})
    """Levels of Kafka's features that were changed (metadata/features.py)."""
    mirror_links: MirrorLinks = NO_LINKS
    mirrors: Mirrors = NO_MIRRORS
    """The topics that mirror another cluster's, or did before a failover, by name."""

    def topic_by_id(self, topic_id: bytes) -> TopicState | None:
        """The topic of this id."""
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def is_sole_copy(self, topic: str, index: int, node_id: int) -> bool:
        """Whether no other replica than this broker's has every committed record; also of a partition that is
        not known."""
        known = self.topics.get(topic)
        if known is None or index >= len(known.partitions):
            return True
        state = known.partitions[index]
        return all(node == node_id for node in (*state.isr, *state.elr))

    def live_brokers(self) -> list[BrokerState]:
        """The brokers that are registered now, by node id."""
        return [self.brokers[node] for node in sorted(self.brokers) if not self.brokers[node].fenced]

    def active_brokers(self) -> list[BrokerState]:
        """The brokers that may be elected and get new replicas, by node id: live, and not shutting down."""
        return [self.brokers[node] for node in sorted(self.brokers) if self.brokers[node].active]


EMPTY_IMAGE = Image()
