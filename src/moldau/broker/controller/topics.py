"""Creating and deleting topics: many in one request, each with its own outcome, all in one append."""

import random
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from moldau.broker.controller.assignments import check_replicas, fresh_partitions
from moldau.broker.controller.config_rules import checked_topic_configs
from moldau.broker.controller.decision import (
    DONE,
    RECORDS_MAX,
    TOO_LARGE,
    Decision,
    MutationLimit,
    Outcome,
    Refusal,
    Steps,
    check_mutation,
)
from moldau.broker.controller.mirror_guard import refuse_mirror
from moldau.broker.controller.names import METADATA_TOPIC, CollisionIndex, check_name
from moldau.broker.controller.placement import Placing, place
from moldau.broker.controller.policies import Verdicts, complete
from moldau.broker.metadata.changes import Change, ConfigsChanged, TopicCreated, TopicDeleted
from moldau.broker.metadata.image import Image, ResourceType
from moldau.common.core.ids import ZERO_UUID, random_uuid
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings

PARTITIONS_PER_TOPIC_MAX = 100_000
"""The most partitions a topic may grow to."""


class NewTopic(NamedTuple):
    """A topic to create. -1 means the broker's default; `assignments` are (partition, replicas)
    pairs."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = MappingProxyType({})


class TopicResult(NamedTuple):
    """The result for one topic. On an error the counts are -1 and the id is zero."""

    name: str
    outcome: Outcome = DONE
    topic_id: bytes = ZERO_UUID
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = MappingProxyType({})


def create_topics(
    image: Image,
    asked: Sequence[NewTopic],
    settings: BrokerSettings,
    source: random.Random,
    limit: MutationLimit | None = None,
    verdicts: Verdicts | None = None,
) -> Steps[list[TopicResult]]:
    """Decide on new topics. `settings`: the effective ones of the broker, for the defaults. `limit`: the
    client's quota. `verdicts`: what policies say; Unasked, if they have not been asked yet."""
    if sum(_wanted_partitions(topic, settings) for topic in asked) > RECORDS_MAX:
        outcome = Outcome(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        return _refused(asked, outcome)
    counts = Counter(topic.name for topic in asked)
    collisions = CollisionIndex(image.topics)
    changes: list[Change] = []
    results: dict[str, TopicResult] = {}
    records = 0
    for topic in asked:
        yield
        if counts[topic.name] > 1:
            outcome = Outcome(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            results[topic.name] = TopicResult(topic.name, outcome)
            continue
        try:
            created, configs = yield from _create(image, topic, settings, source, collisions, verdicts)
            if not (verdicts and verdicts.open):
                check_mutation(limit, topic.name, len(created.partitions))
        except Refusal as refusal:
            results[topic.name] = TopicResult(topic.name, refusal.outcome)
            continue
        collisions.add(topic.name)
        changes.append(created)
        records += 1 + len(created.partitions) + len(configs)
        if configs:
            changes.append(ConfigsChanged(ResourceType.TOPIC, topic.name, configs))
        results[topic.name] = TopicResult(
            topic.name,
            DONE,
            created.topic_id,
            len(created.partitions),
            len(created.partitions[0].replicas),
            configs,
        )
    if records > RECORDS_MAX:
        return _refused(asked, TOO_LARGE)
    complete(verdicts)
    return Decision(changes, list(results.values()))


def _refused(asked: Sequence[NewTopic], outcome: Outcome) -> Decision[list[TopicResult]]:
    names = dict.fromkeys(topic.name for topic in asked)
    return Decision([], [TopicResult(name, outcome) for name in names])


def _wanted_partitions(topic: NewTopic, settings: BrokerSettings) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return settings.num_partitions if topic.num_partitions == -1 else max(0, topic.num_partitions)


def _create(
    image: Image,
    topic: NewTopic,
    settings: BrokerSettings,
    source: random.Random,
    collisions: CollisionIndex,
    verdicts: Verdicts | None,
) -> Generator[None, None, tuple[TopicCreated, dict[str, str]]]:
    if topic.name == METADATA_TOPIC:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        )
    check_name(topic.name)
    if topic.name in image.topics:
        raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    collisions.check(topic.name)
    configs = checked_topic_configs(topic.configs)
    if verdicts is not None and topic.configs:
        verdicts.about_configs("topic", topic.name, topic.configs)
    placed = yield from (
        _assigned(image, topic) if topic.assignments else _placed(image, topic, settings, source)
    )
    if verdicts is not None:
        _ask_about(topic, placed, verdicts)
    partitions = yield from fresh_partitions(image, placed)
    return TopicCreated(topic.name, random_uuid(source), partitions), configs


def _ask_about(topic: NewTopic, placed: Sequence[Sequence[int]], verdicts: Verdicts) -> None:
    """Refusal: a policy forbids the topic."""
    if topic.assignments:
        verdicts.about_topic(topic.name, None, None, dict(enumerate(placed)), topic.configs)
    else:
        verdicts.about_topic(topic.name, len(placed), len(placed[0]), None, topic.configs)


def _assigned(image: Image, topic: NewTopic) -> Placing:
    if topic.replication_factor != -1:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != -1:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    by_index: dict[int, tuple[int, ...]] = {}
    replication_factor: int | None = None
    for index, replicas in topic.assignments:
        if index in by_index:
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        check_replicas(image, replicas, replication_factor)
        replication_factor = len(replicas)
        by_index[index] = tuple(replicas)
        yield
    if sorted(by_index) != list(range(len(by_index))):
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [by_index[index] for index in range(len(by_index))]


def _placed(image: Image, topic: NewTopic, settings: BrokerSettings, source: random.Random) -> Placing:
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise Refusal(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    count = settings.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    replication_factor = topic.replication_factor
    if replication_factor == -1:
        replication_factor = settings.default_replication_factor
    return (
        yield from place(
            list(image.brokers.values()),
            start=source.randrange(max(1, len(image.brokers))),
            first_partition=0,
            count=count,
            replication_factor=replication_factor,
        )
    )


class DeletedTopic(NamedTuple):
    """The result of one deletion. `name` is None where an unknown id was given."""

    name: str | None
    topic_id: bytes
    outcome: Outcome


def delete_topics(
    image: Image,
    asked: Sequence[tuple[str | None, bytes]],
    *,
    enabled: bool,
    limit: MutationLimit | None = None,
    may_delete: Callable[[str], bool] = lambda name: True,
) -> Steps[list[DeletedTopic]]:
    """Decide on deletions, each given by name or (name None) by id. `enabled`: delete.topic.enable. `limit`:
    the client's quota. `may_delete` is asked about the topic of an id, which whoever asked may have known
    before this broker did."""
    counts: Counter[tuple[str | None, bytes]] = Counter()
    for each in asked:
        counts[each] += 1
        yield
    changes: list[Change] = []
    results: list[DeletedTopic] = []
    deleted: set[str] = set()
    for name, topic_id in counts:
        yield
        try:
            if counts[name, topic_id] > 1:
                what = "id" if name is None else "name"
                raise Refusal(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
            if not enabled:
                raise Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false.")
            found = _existing(image, name, topic_id)
            if name is None and not may_delete(found):
                raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if found in deleted:
                raise Refusal(
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
            refuse_mirror(image, found, "be deleted")
            check_mutation(limit, found, len(image.topics[found].partitions))
        except Refusal as refusal:
            results.append(DeletedTopic(name, topic_id, refusal.outcome))
            continue
        deleted.add(found)
        changes.append(TopicDeleted(found))
        results.append(DeletedTopic(found, image.topics[found].topic_id, DONE))
    if len(changes) > RECORDS_MAX:
        return Decision([], (yield from none_deleted(counts, TOO_LARGE)))
    return Decision(changes, results)


def none_deleted(
    asked: Iterable[tuple[str | None, bytes]], outcome: Outcome
) -> Generator[None, None, list[DeletedTopic]]:
    """The same result for each topic, once for each."""
    found: dict[tuple[str | None, bytes], DeletedTopic] = {}
    for each in asked:
        found[each] = DeletedTopic(*each, outcome)
        yield
    return list(found.values())


def _existing(image: Image, name: str | None, topic_id: bytes) -> str:
    if name is not None and topic_id != ZERO_UUID:
        raise Refusal(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is not None:
        if name not in image.topics:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
        return name
    if topic_id == ZERO_UUID:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    found = image.topic_names.get(topic_id)
    if found is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "There is no topic with this id.")
    return found
