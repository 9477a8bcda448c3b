"""Computes the changes between two images, for a broker or subscriber that missed the entries.

A broker that fell far behind gets a snapshot, not the entries; a subscriber that failed is called with
everything since the last image that it applied. Both get it as one change list:

    replay(old, new.version, changes_between(old, new)) == new

Changes that were reverted in between are left out; a topic that was deleted and created again appears as
both.
"""

from collections.abc import Iterator

from moldau.broker.metadata.changes import (
    AclsCreated,
    AclsDeleted,
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnregistered,
    Change,
    ClientQuotasChanged,
    ClusterCreated,
    ConfigsChanged,
    ControllerElected,
    DelegationTokenChanged,
    DelegationTokensRemoved,
    FeatureChanged,
    FeatureLevelChanged,
    LogEndsTold,
    PartitionsAdded,
    PartitionsChanged,
    ProducerIdsAllocated,
    ReplicasOffline,
    ScramCredentialRemoved,
    ScramCredentialSet,
    ScramSecretMade,
    TopicCreated,
    TopicDeleted,
)
from moldau.broker.metadata.image import BrokerState, Image, ResourceType, TopicState
from moldau.broker.metadata.mirror_changes import (
    MirrorLinkRemoved,
    MirrorLinkSet,
    MirrorTopicRemoved,
    MirrorTopicSet,
)


def changes_between(old: Image, new: Image) -> list[Change]:
    """Changes that make `new` of `old`. A topic with fewer partitions than before was created again."""
    changes: list[Change] = []
    if new.cluster_id != old.cluster_id:
        changes.append(ClusterCreated(new.cluster_id))
    if new.level != old.level:
        changes.append(FeatureLevelChanged(new.level))
    changes += [
        FeatureChanged(name, level) for name, level in new.features.items() if old.features.get(name) != level
    ]
    if (new.controller_id, new.controller_epoch) != (old.controller_id, old.controller_epoch):
        changes.append(ControllerElected(new.controller_id, new.controller_epoch))
    changes += _of_brokers(old, new)
    remade = {name for name, topic in old.topics.items() if not _goes_on(topic, new.topics.get(name))}
    changes += [TopicDeleted(name) for name in old.topics if name in remade]
    changes += _of_topics(old, new, remade)
    changes += _of_configs(old, new, remade)
    changes += _of_acls(old, new)
    changes += _of_delegation_tokens(old, new)
    changes += _of_scram(old, new)
    changes += _of_quotas(old, new)
    changes += _of_mirrors(old, new, remade)
    if new.next_producer_id != old.next_producer_id:
        changes.append(ProducerIdsAllocated(new.controller_id, new.next_producer_id))
    return changes


def _of_brokers(old: Image, new: Image) -> Iterator[Change]:
    for node_id in old.brokers:
        if node_id not in new.brokers:
            yield BrokerUnregistered(node_id)
    for node_id, broker in new.brokers.items():
        known = old.brokers.get(node_id)
        fenced = shutting_down = False
        offline = None if known is None else known.offline
        if known is None or _registered_anew(known, broker):
            yield BrokerRegistered(
                node_id,
                broker.broker_epoch,
                broker.endpoints,
                broker.rack,
                broker.levels,
                broker.directories,
            )
        else:
            fenced, shutting_down = known.fenced, known.shutting_down
        if fenced != broker.fenced:
            yield BrokerFenced(node_id, broker.fenced)
        if shutting_down != broker.shutting_down:
            yield BrokerShuttingDown(node_id)
        if broker.offline != (offline or {}):
            yield ReplicasOffline(node_id, tuple((each, tuple(of)) for each, of in broker.offline.items()))
        known_ends = {} if known is None or _registered_anew(known, broker) else known.log_ends
        if broker.log_ends != known_ends:
            yield LogEndsTold(node_id, tuple(broker.log_ends.items()))


def _registered_anew(known: BrokerState, now: BrokerState) -> bool:
    """Whether the broker registered in between; only that ends a shutdown."""
    kept = known._replace(
        fenced=now.fenced, shutting_down=now.shutting_down, offline=now.offline, log_ends=now.log_ends
    )
    return kept != now or (known.shutting_down and not now.shutting_down)


def _goes_on(topic: TopicState, later: TopicState | None) -> bool:
    return (
        later is not None
        and later.topic_id == topic.topic_id
        and len(later.partitions) >= len(topic.partitions)
    )


def _of_topics(old: Image, new: Image, remade: set[str]) -> Iterator[Change]:
    for name, topic in new.topics.items():
        known = old.topics.get(name)
        if known is topic:
            continue
        if known is None or name in remade:
            yield TopicCreated(name, topic.topic_id, topic.partitions)
            continue
        count = len(known.partitions)
        both = zip(known.partitions, topic.partitions, strict=False)
        rows = tuple((index, after) for index, (before, after) in enumerate(both) if before != after)
        if rows:
            yield PartitionsChanged(name, rows)
        if len(topic.partitions) > count:
            yield PartitionsAdded(name, topic.partitions[count:])


def _of_configs(old: Image, new: Image, remade: set[str]) -> Iterator[Change]:
    if old.configs is new.configs:
        return
    for key in {**old.configs, **new.configs}:
        kind, name = key
        gone = kind is ResourceType.TOPIC and name in remade  # with the topic
        before, after = {} if gone else old.configs.get(key, {}), new.configs.get(key, {})
        if before != after:
            values: dict[str, str | None] = dict.fromkeys(name for name in before if name not in after)
            values.update((name, value) for name, value in after.items() if before.get(name) != value)
            yield ConfigsChanged(kind, name, values)


def _of_acls(old: Image, new: Image) -> Iterator[Change]:
    if old.acls is new.acls:
        return
    gone = tuple([acl for acl in old.acls if acl not in new.acls])
    come = tuple([acl for acl in new.acls if acl not in old.acls])
    if gone:
        yield AclsDeleted(gone)
    if come:
        yield AclsCreated(come)


def _of_delegation_tokens(old: Image, new: Image) -> Iterator[Change]:
    before, after = old.delegation_tokens, new.delegation_tokens
    if before is after:
        return
    gone = tuple([token_id for token_id in before if token_id not in after])
    if gone:
        yield DelegationTokensRemoved(gone)
    for token_id, token in after.items():
        if before.get(token_id) != token:
            yield DelegationTokenChanged(token)


def _of_scram(old: Image, new: Image) -> Iterator[Change]:
    if new.scram_secret != old.scram_secret:
        yield ScramSecretMade(new.scram_secret)
    if old.scram is new.scram:
        return
    for user in {**old.scram, **new.scram}:
        before, after = old.scram.get(user, {}), new.scram.get(user, {})
        for mechanism in before:
            if mechanism not in after:
                yield ScramCredentialRemoved(user, mechanism)
        for mechanism, credential in after.items():
            if before.get(mechanism) != credential:
                yield ScramCredentialSet(user, mechanism, credential)


def _of_quotas(old: Image, new: Image) -> Iterator[Change]:
    if old.quotas is new.quotas:
        return
    for entity in {**old.quotas, **new.quotas}:
        before, after = old.quotas.get(entity, {}), new.quotas.get(entity, {})
        if before != after:
            values: dict[str, float | None] = dict.fromkeys(key for key in before if key not in after)
            values.update((key, value) for key, value in after.items() if before.get(key) != value)
            yield ClientQuotasChanged(entity, values)


def _of_mirrors(old: Image, new: Image, remade: set[str]) -> Iterator[Change]:
    if old.mirror_links is not new.mirror_links:
        for name in old.mirror_links:
            if name not in new.mirror_links:
                yield MirrorLinkRemoved(name)
        for name, link in new.mirror_links.items():
            if old.mirror_links.get(name) != link:
                yield MirrorLinkSet(name, link.settings)
    for topic in old.mirrors:
        if topic not in new.mirrors and topic not in remade:
            yield MirrorTopicRemoved(topic)
    for topic, mirror in new.mirrors.items():
        if topic in remade or old.mirrors.get(topic) != mirror:
            yield MirrorTopicSet(topic, mirror)
