"""Metadata levels: which kinds of changes the brokers of a cluster may write, so that two releases run side
by side.

The cluster's level is in the image. A change that an older level does not know is written only once the level
has been raised to one that knows it (`FeatureLevelChanged`), and the level is raised only to one that every
registered broker reads. So no broker meets a change that it cannot read.

    level 1   a single broker, releases before the cluster
    level 2   brokers tell levels and log directories; BrokerShuttingDown, ReplicasOffline, reassignments
    level 3   who may log in, do what, and how much: ACLs, SCRAM credentials, delegation tokens, client quotas
    level 4   doubtful replicas, and where their logs end
    level 5   levels of Kafka's features (features.py)
    level 6   links to other clusters and mirror topics (mirrors.py)

A new cluster begins at the highest level. An older one keeps its level until an administrator raises it
(UpdateFeatures, `kafka-features upgrade`). Levels are never lowered: what was written would not be readable.
"""

from collections.abc import Mapping, Sequence

from moldau.broker.metadata.changes import (
    AclsCreated,
    AclsDeleted,
    BrokerRegistered,
    BrokerShuttingDown,
    Change,
    ClientQuotasChanged,
    DelegationTokenChanged,
    DelegationTokensRemoved,
    FeatureChanged,
    FeatureLevelChanged,
    LogEndsTold,
    PartitionChanged,
    PartitionsAdded,
    PartitionsChanged,
    ReplicasOffline,
    ScramCredentialRemoved,
    ScramCredentialSet,
    ScramSecretMade,
    TopicCreated,
)
from moldau.broker.metadata.image import FIRST_LEVELS, Image, PartitionState
from moldau.broker.metadata.mirror_changes import (
    MirrorLinkRemoved,
    MirrorLinkSet,
    MirrorTopicRemoved,
    MirrorTopicSet,
)

FEATURE = "moldau.metadata.version"
"""The name under which clients see the level (ApiVersions, UpdateFeatures)."""

LEVEL_MIN = 1
LEVEL_MAX = 6
LEVELS = (LEVEL_MIN, LEVEL_MAX)
"""The levels that this version of Moldau reads."""

CLUSTER_LEVEL = 2
"""From this level on there are the changes that several brokers need."""
SECURITY_LEVEL = 3
"""From this level on there are the changes that a secured cluster needs."""
LOG_ENDS_LEVEL = 4
"""From this level on the longest log leads after all have lost power."""
FEATURES_LEVEL = 5
"""From this level on Kafka's features have levels that change."""
MIRRORS_LEVEL = 6
"""From this level on topics may mirror another cluster's."""

_NEEDED: Mapping[type, int] = {
    BrokerShuttingDown: CLUSTER_LEVEL,
    ReplicasOffline: CLUSTER_LEVEL,
    LogEndsTold: LOG_ENDS_LEVEL,
    AclsCreated: SECURITY_LEVEL,
    AclsDeleted: SECURITY_LEVEL,
    DelegationTokenChanged: SECURITY_LEVEL,
    DelegationTokensRemoved: SECURITY_LEVEL,
    ScramSecretMade: SECURITY_LEVEL,
    ScramCredentialSet: SECURITY_LEVEL,
    ScramCredentialRemoved: SECURITY_LEVEL,
    ClientQuotasChanged: SECURITY_LEVEL,
    FeatureChanged: FEATURES_LEVEL,
    MirrorLinkSet: MIRRORS_LEVEL,
    MirrorLinkRemoved: MIRRORS_LEVEL,
    MirrorTopicSet: MIRRORS_LEVEL,
    MirrorTopicRemoved: MIRRORS_LEVEL,
}
"""Changes that are new in a level; of the others, some need one only for what they say."""


class LevelTooHigh(Exception):
    """A change that the cluster's level does not know yet."""


def complaint(level: int) -> str | None:
    """Why this version of Moldau cannot serve a cluster at this level; None if it can."""
    if LEVEL_MIN <= level <= LEVEL_MAX:
        return None
    return (
        f"the cluster's metadata is at level {level}, and this version of Moldau reads levels {LEVEL_MIN} to "
        f"{LEVEL_MAX}; start a {'newer' if level > LEVEL_MAX else 'older'} version"
    )


def check_level(image: Image, changes: Sequence[Change]) -> None:
    """Raise LevelTooHigh if brokers at the image's level could not read these changes."""
    if image.level >= LEVEL_MAX:
        return
    level = image.level
    for change in changes:
        if isinstance(change, FeatureLevelChanged):
            level = change.level
            continue
        needed = _needed(change)
        if needed > level:
            raise LevelTooHigh(
                f"{type(change).__name__} needs metadata level {needed}, and the cluster is at "
                f"{level}; raise it once all brokers run this version: "
                f"kafka-features upgrade --feature {FEATURE}={needed}"
            )


def _needed(change: Change) -> int:
    """The level that a change needs."""
    needed = _NEEDED.get(type(change))
    if needed is not None:
        return needed
    if isinstance(change, BrokerRegistered):
        return CLUSTER_LEVEL if change.levels != FIRST_LEVELS or change.directories else LEVEL_MIN
    states = _states(change)
    if any(state.doubtful for state in states):
        return LOG_ENDS_LEVEL
    return CLUSTER_LEVEL if any(state.original or state.target for state in states) else LEVEL_MIN


def _states(change: Change) -> Sequence[PartitionState]:
    if isinstance(change, PartitionChanged):
        return [change.state]
    if isinstance(change, PartitionsChanged):
        return [state for _, state in change.partitions]
    return change.partitions if isinstance(change, TopicCreated | PartitionsAdded) else ()
