"""Encodes changes and images as JSON, the format in which stores write them.

A change is a list: its kind, then its fields in order. Ids are text, tuples are lists. Unknown kinds are
refused: skipping a change would give an image that differs from other brokers'.

What was once written keeps its meaning. A change whose meaning changes gets a new kind (`broker-registered`
is read, `broker-registered/2` is written). A new field comes last and has a default, which is not written, so
that what does not use it stays readable for older versions:

    partition   [leader, leader epoch, partition epoch, [replicas], [in-sync]]
                [..., [eligible]]                         if any is eligible (KIP-966)
                [..., [eligible], [original], [target]]   while it is being reassigned (KIP-455)
                [..., [target], [doubtful]]   while nobody leads, and machines have lost power
"""

import binascii
import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

from moldau.broker.metadata import changes as ch
from moldau.broker.metadata import mirror_changes as mirroring
from moldau.broker.metadata.delegation_tokens import DelegationToken
from moldau.broker.metadata.image import (
    FIRST_LEVELS,
    BrokerState,
    Image,
    LogEnd,
    PartitionState,
    ResourceType,
    TopicState,
)
from moldau.broker.metadata.levels import complaint
from moldau.broker.metadata.mirrors import MirrorLink, MirrorState, MirrorTopic
from moldau.common.access.quota_entities import QuotaEntity
from moldau.common.core.ids import uuid_from_text, uuid_to_text
from moldau.common.credentials.scram_credential import ScramCredential
from moldau.common.protocol.acls import Acl


class UnknownChange(ValueError):
    """A change or an image that this version of Moldau does not know; a newer one wrote it."""


def encode_changes(changes: Sequence[ch.Change]) -> list[list[Any]]:
    """Changes as JSON values."""
    encoded = []
    for change in changes:
        kind, encoder, _ = _BY_TYPE[type(change)]
        encoded.append([kind, *encoder(change)])
    return encoded


def entry_in_slices(version: int, changes: Sequence[ch.Change]) -> Generator[None, None, bytes]:
    """The JSON of `{"version": ..., "changes": [...]}`, a few changes or partitions a step."""
    pieces = []
    for change in changes:
        pieces.append((yield from change_in_slices(change)))
    return b'{"version":%d,"changes":[%b]}' % (version, b",".join(pieces))


def change_in_slices(change: ch.Change) -> Generator[None, None, bytes]:
    """The JSON of one change, a few partitions a step."""
    kind, encoder, _ = _BY_TYPE[type(change)]
    fields = [kind, *encoder(change)]
    partitions = fields[-1]
    if type(change) not in _WITH_PARTITIONS or len(partitions) <= _PARTITIONS_AT_ONCE:
        yield
        return to_json(fields)
    parts = []
    for start in range(0, len(partitions), _PARTITIONS_AT_ONCE):
        parts.append(to_json(partitions[start : start + _PARTITIONS_AT_ONCE])[1:-1])
        yield
    fields[-1] = []
    return to_json(fields)[:-2] + b",".join(parts) + b"]]"


def decode_changes(values: Sequence[Sequence[Any]]) -> list[ch.Change]:
    """The changes behind JSON values; UnknownChange for a kind that is not known."""
    decoded: list[ch.Change] = []
    for kind, *fields in values:
        decoder = _DECODERS.get(kind)
        if decoder is None:
            raise UnknownChange(
                f"the metadata holds a change of the unknown kind {kind!r}: a newer version of Moldau wrote "
                "it, and only such a version can read it"
            )
        decoded.append(decoder(*fields))
    return decoded


def to_json(value: object) -> bytes:
    """The bytes of a JSON value, without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _fields_of(state: PartitionState) -> Sequence[Any]:
    if state.doubtful:
        return state
    if state.original or state.target:
        return state[:8]
    return state[:6] if state.elr else state[:5]


def _fields_of_all(states: Sequence[PartitionState]) -> list[Sequence[Any]]:
    return [_fields_of(state) for state in states]


def _partition(fields: Sequence[Any]) -> PartitionState:
    leader, leader_epoch, partition_epoch, replicas, isr, *rest = fields
    if not rest:
        return PartitionState(leader, leader_epoch, partition_epoch, tuple(replicas), tuple(isr))
    further = [tuple(nodes) for nodes in rest]
    return PartitionState(leader, leader_epoch, partition_epoch, tuple(replicas), tuple(isr), *further)


def _partitions(values: Sequence[Sequence[Any]]) -> tuple[PartitionState, ...]:
    return tuple(_partition(value) for value in values)


def _offline_fields(replicas: Iterable[tuple[bytes, Sequence[int]]]) -> dict[str, Sequence[int]]:
    return {uuid_to_text(topic_id): indexes for topic_id, indexes in replicas}


def _offline(value: Mapping[str, Sequence[int]]) -> dict[bytes, tuple[int, ...]]:
    return {uuid_from_text(topic_id): tuple(indexes) for topic_id, indexes in value.items()}


def _log_end_fields(ends: Iterable[tuple[bytes, Sequence[LogEnd]]]) -> dict[str, Sequence[LogEnd]]:
    return {uuid_to_text(topic_id): rows for topic_id, rows in ends}


def _log_ends(value: Mapping[str, Sequence[Sequence[int]]]) -> dict[bytes, tuple[LogEnd, ...]]:
    return {uuid_from_text(topic_id): tuple(LogEnd(*row) for row in rows) for topic_id, rows in value.items()}


def _fields_of_broker(broker: BrokerState) -> list[Any]:
    """The fields of every release, then a table of those that are not at their default."""
    fields: list[Any] = list(broker[:5])
    further = {
        "shutting_down": broker.shutting_down,
        "offline": _offline_fields(broker.offline.items()),
        "levels": broker.levels if broker.levels != FIRST_LEVELS else (),
        "directories": broker.directories,
        "log_ends": _log_end_fields(broker.log_ends.items()),
    }
    given = {name: value for name, value in further.items() if value}
    return [*fields, given] if given else fields


def _broker(
    node_id: int,
    broker_epoch: int,
    endpoints: Mapping[str, Sequence[Any]],
    rack: str | None,
    fenced: bool,
    further: Mapping[str, Any] | None = None,
) -> BrokerState:
    broker = BrokerState(node_id, broker_epoch, _endpoints(endpoints), rack, fenced)
    if not further:
        return broker
    low, high = further.get("levels", FIRST_LEVELS)
    return broker._replace(
        shutting_down=further.get("shutting_down", False),
        offline=_offline(further.get("offline", {})),
        levels=(low, high),
        directories=tuple(further.get("directories", ())),
        log_ends=_log_ends(further.get("log_ends", {})),
    )


def _endpoints(value: Mapping[str, Sequence[Any]]) -> dict[str, tuple[str, int]]:
    return {name: (host, port) for name, (host, port) in value.items()}


def _token(
    token_id: str,
    owner: str,
    requester: str,
    renewers: Sequence[str],
    issued_ms: int,
    expires_ms: int,
    max_ms: int,
) -> DelegationToken:
    return DelegationToken(token_id, owner, requester, tuple(renewers), issued_ms, expires_ms, max_ms)


def _text(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


def _bytes(text: str) -> bytes:
    return binascii.a2b_base64(text)


def _credential_fields(credential: ScramCredential) -> list[Any]:
    *keys, iterations = credential
    return [*map(_text, keys), iterations]


def _credential(fields: Sequence[Any]) -> ScramCredential:
    salt, stored_key, server_key, iterations = fields
    return ScramCredential(_bytes(salt), _bytes(stored_key), _bytes(server_key), iterations)


def _entity(parts: Sequence[Sequence[Any]]) -> QuotaEntity:
    return tuple([(kind, name) for kind, name in parts])


def _fields_of_mirror(mirror: MirrorTopic) -> list[Any]:
    link, source, source_id, state, left, reason = mirror
    return [link, source, uuid_to_text(source_id), str(state), left, reason]


def _mirror(
    link: str, source: str, source_id: str, state: str, left: Sequence[int], reason: str
) -> MirrorTopic:
    return MirrorTopic(link, source, uuid_from_text(source_id), MirrorState(state), tuple(left), reason)


_Row = tuple[str, Callable[[Any], Iterable[Any]], Callable[..., ch.Change]]
_BY_TYPE: dict[type, _Row] = {
    ch.ClusterCreated: ("cluster-created", list, ch.ClusterCreated),
    ch.ControllerElected: ("controller-elected", list, ch.ControllerElected),
    ch.BrokerRegistered: (
        "broker-registered/2",
        lambda change: change if change[4:] != (FIRST_LEVELS, ()) else change[:4],
        lambda node, epoch, endpoints, rack, levels=FIRST_LEVELS, directories=(): ch.BrokerRegistered(
            node, epoch, _endpoints(endpoints), rack, tuple(levels), tuple(directories)
        ),
    ),
    ch.FeatureLevelChanged: ("feature-level-changed", list, ch.FeatureLevelChanged),
    ch.FeatureChanged: ("feature-changed", list, ch.FeatureChanged),
    ch.BrokerShuttingDown: ("broker-shutting-down", list, ch.BrokerShuttingDown),
    ch.ReplicasOffline: (
        "replicas-offline",
        lambda change: [change.node_id, _offline_fields(change.replicas)],
        lambda node, replicas: ch.ReplicasOffline(node, tuple(_offline(replicas).items())),
    ),
    ch.LogEndsTold: (
        "log-ends-told",
        lambda change: [change.node_id, _log_end_fields(change.ends)],
        lambda node, ends: ch.LogEndsTold(node, tuple(_log_ends(ends).items())),
    ),
    ch.BrokerRegisteredAndElected: (
        "broker-registered",
        list,
        lambda node, epoch, endpoints, rack: ch.BrokerRegisteredAndElected(
            node, epoch, _endpoints(endpoints), rack
        ),
    ),
    ch.LeadershipRenewed: ("leadership-renewed", list, ch.LeadershipRenewed),
    ch.BrokerFenced: ("broker-fenced", list, ch.BrokerFenced),
    ch.BrokerUnregistered: ("broker-unregistered", list, ch.BrokerUnregistered),
    ch.TopicCreated: (
        "topic-created",
        lambda change: [change.name, uuid_to_text(change.topic_id), _fields_of_all(change.partitions)],
        lambda name, topic_id, parts: ch.TopicCreated(name, uuid_from_text(topic_id), _partitions(parts)),
    ),
    ch.TopicDeleted: ("topic-deleted", list, ch.TopicDeleted),
    ch.PartitionsAdded: (
        "partitions-added",
        lambda change: [change.topic, _fields_of_all(change.partitions)],
        lambda topic, parts: ch.PartitionsAdded(topic, _partitions(parts)),
    ),
    ch.PartitionChanged: (
        "partition-changed",
        lambda change: [change.topic, change.partition, _fields_of(change.state)],
        lambda topic, index, state: ch.PartitionChanged(topic, index, _partition(state)),
    ),
    ch.PartitionsChanged: (
        "partitions-changed",
        lambda change: [change.topic, [[index, _fields_of(state)] for index, state in change.partitions]],
        lambda topic, rows: ch.PartitionsChanged(
            topic, tuple((index, _partition(state)) for index, state in rows)
        ),
    ),
    ch.ConfigsChanged: (
        "configs-changed",
        lambda change: [int(change.resource_type), change.resource_name, change.values],
        lambda kind, name, values: ch.ConfigsChanged(ResourceType(kind), name, values),
    ),
    ch.AclsCreated: ("acls-created", list, lambda rows: ch.AclsCreated(tuple([Acl(*row) for row in rows]))),
    ch.AclsDeleted: ("acls-deleted", list, lambda rows: ch.AclsDeleted(tuple([Acl(*row) for row in rows]))),
    ch.DelegationTokenChanged: (
        "delegation-token-changed",
        lambda change: change.token,
        lambda *fields: ch.DelegationTokenChanged(_token(*fields)),
    ),
    ch.DelegationTokensRemoved: (
        "delegation-tokens-removed",
        lambda change: change.token_ids,
        lambda *token_ids: ch.DelegationTokensRemoved(token_ids),
    ),
    ch.ScramSecretMade: (
        "scram-secret-made",
        lambda change: [_text(change.secret)],
        lambda secret: ch.ScramSecretMade(_bytes(secret)),
    ),
    ch.ScramCredentialSet: (
        "scram-credential-set",
        lambda change: [change.user, change.mechanism, _credential_fields(change.credential)],
        lambda user, mechanism, fields: ch.ScramCredentialSet(user, mechanism, _credential(fields)),
    ),
    ch.ScramCredentialRemoved: ("scram-credential-removed", list, ch.ScramCredentialRemoved),
    ch.ClientQuotasChanged: (
        "client-quotas-changed",
        list,
        lambda entity, values: ch.ClientQuotasChanged(_entity(entity), values),
    ),
    ch.ProducerIdsAllocated: ("producer-ids-allocated", list, ch.ProducerIdsAllocated),
    mirroring.MirrorLinkSet: ("mirror-link-set", list, mirroring.MirrorLinkSet),
    mirroring.MirrorLinkRemoved: ("mirror-link-removed", list, mirroring.MirrorLinkRemoved),
    mirroring.MirrorTopicSet: (
        "mirror-topic-set",
        lambda change: [change.topic, _fields_of_mirror(change.mirror)],
        lambda topic, fields: mirroring.MirrorTopicSet(topic, _mirror(*fields)),
    ),
    mirroring.MirrorTopicRemoved: ("mirror-topic-removed", list, mirroring.MirrorTopicRemoved),
}
"""For each change: its kind as it is written, its fields as JSON (tuples become lists), and the way back."""
_WITH_PARTITIONS = frozenset({ch.TopicCreated, ch.PartitionsAdded, ch.PartitionsChanged})
"""Changes whose last field is a list of partitions."""
_PARTITIONS_AT_ONCE = 64
_DECODERS = {kind: decoder for kind, _, decoder in _BY_TYPE.values()}


def encode_image(image: Image) -> dict[str, Any]:
    """An image as a JSON value."""
    return {
        **({} if image.level == 1 else {"level": image.level}),
        "version": image.version,
        "cluster_id": image.cluster_id,
        "controller_id": image.controller_id,
        "controller_epoch": image.controller_epoch,
        "next_producer_id": image.next_producer_id,
        "brokers": [_fields_of_broker(broker) for broker in image.brokers.values()],
        "topics": [
            [t.name, uuid_to_text(t.topic_id), _fields_of_all(t.partitions)] for t in image.topics.values()
        ],
        "configs": [[int(kind), name, values] for (kind, name), values in image.configs.items()],
        **({"acls": list(image.acls)} if image.acls else {}),
        **({"quotas": [[entity, values] for entity, values in image.quotas.items()]} if image.quotas else {}),
        **({"delegation_tokens": list(image.delegation_tokens.values())} if image.delegation_tokens else {}),
        **({"features": dict(image.features)} if image.features else {}),
        **({"scram": _fields_of_users(image)} if image.scram else {}),
        **({"scram_secret": _text(image.scram_secret)} if image.scram_secret else {}),
        **(
            {"mirror_links": {link.name: link.settings for link in image.mirror_links.values()}}
            if image.mirror_links
            else {}
        ),
        **(
            {"mirrors": {topic: _fields_of_mirror(each) for topic, each in image.mirrors.items()}}
            if image.mirrors
            else {}
        ),
    }


def _fields_of_users(image: Image) -> dict[str, Any]:
    return {
        user: {name: _credential_fields(each) for name, each in own.items()}
        for user, own in image.scram.items()
    }


def decode_image(value: Mapping[str, Any]) -> Image:
    """The image behind a JSON value; UnknownChange for one of a level that is not known."""
    level = value.get("level", 1)
    unreadable = complaint(level)
    if unreadable is not None:
        raise UnknownChange(unreadable)
    topics = [
        TopicState(name, uuid_from_text(topic_id), _partitions(partitions))
        for name, topic_id, partitions in value["topics"]
    ]
    brokers = [_broker(*fields) for fields in value["brokers"]]
    return Image(
        level=level,
        version=value["version"],
        cluster_id=value["cluster_id"],
        controller_id=value["controller_id"],
        controller_epoch=value["controller_epoch"],
        next_producer_id=value["next_producer_id"],
        brokers={broker.node_id: broker for broker in brokers},
        topics={topic.name: topic for topic in topics},
        topic_names={topic.topic_id: topic.name for topic in topics},
        configs={(ResourceType(kind), name): values for kind, name, values in value["configs"]},
        acls=dict.fromkeys([Acl(*row) for row in value.get("acls", ())]),
        delegation_tokens={row[0]: _token(*row) for row in value.get("delegation_tokens", ())},
        scram={
            user: {name: _credential(fields) for name, fields in own.items()}
            for user, own in value.get("scram", {}).items()
        },
        scram_secret=_bytes(value.get("scram_secret", "")),
        quotas={_entity(entity): values for entity, values in value.get("quotas", ())},
        features=value.get("features", {}),
        mirror_links={name: MirrorLink(name, own) for name, own in value.get("mirror_links", {}).items()},
        mirrors={topic: _mirror(*fields) for topic, fields in value.get("mirrors", {}).items()},
    )
