"""Changes of settings: one by one (IncrementalAlterConfigs) or all of a resource at once (AlterConfigs).

Each resource succeeds or fails as a whole. Only explicitly set values are stored; effective values are
computed in metadata/configs.py.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from moldau.broker.controller.config_rules import (
    check_broker_configs,
    check_cleaner,
    check_group_configs,
    checked_topic_configs,
)
from moldau.broker.controller.decision import (
    DONE,
    RECORDS_MAX,
    TOO_LARGE,
    Decision,
    Outcome,
    Refusal,
    Steps,
)
from moldau.broker.controller.policies import Verdicts, complete
from moldau.broker.metadata.changes import Change, ConfigsChanged
from moldau.broker.metadata.configs import NOTHING, inherited_value
from moldau.broker.metadata.features import keeps_eligible
from moldau.broker.metadata.image import Image, ResourceType
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.group import GroupSettings
from moldau.common.settings.rows import Kind, Setting
from moldau.common.settings.topic import REMOVED, TopicSettings


class Operation(IntEnum):
    """What to do with one setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterResource(NamedTuple):
    """Operations on the settings of one resource: (name, operation, value)."""

    resource_type: int
    resource_name: str
    operations: Sequence[tuple[str, int, str | None]]
    replace_all: bool = False
    """Whether settings that are not named are removed (AlterConfigs)."""


MIN_ISR = "min.insync.replicas"
_CLEANER = frozenset(("log.cleaner.threads", "log.cleaner.dedupe.buffer.size"))

Answer = list[tuple[AlterResource, Outcome]]


def alter_configs(
    image: Image, asked: Sequence[AlterResource], broker: BrokerSettings, verdicts: Verdicts | None = None
) -> Steps[Answer]:
    """Decide on changed settings. `broker`: the broker's effective ones, which set limits and defaults.
    `verdicts`: what policies say; Unasked, if they have not been asked yet."""
    if any(len(one.operations) > RECORDS_MAX for one in asked):
        return Decision([], [(one, TOO_LARGE) for one in asked])
    counts = Counter((one.resource_type, one.resource_name) for one in asked)
    changes: list[Change] = []
    answer: Answer = []
    records = 0
    for one in asked:
        yield
        try:
            if counts[one.resource_type, one.resource_name] > 1:
                raise _bad_request("Each resource must appear at most once.")
            change = changed_configs(image, one, broker, verdicts)
        except Refusal as refusal:
            answer.append((one, refusal.outcome))
            continue
        if change is not None:
            changes.append(change)
            records += len(change.values)
        answer.append((one, DONE))
    if records > RECORDS_MAX:
        return Decision([], [(one, TOO_LARGE) for one in asked])
    complete(verdicts)
    return Decision(changes, answer)


def changed_configs(
    image: Image, one: AlterResource, broker: BrokerSettings, verdicts: Verdicts | None = None
) -> ConfigsChanged | None:
    """What the request changes in one resource; None: nothing. Refusal."""
    rows = _ROWS.get(one.resource_type)
    if rows is None:
        raise _bad_request(f"Unknown resource type {one.resource_type}")
    _check_operations(one)
    resource_type = ResourceType(one.resource_type)
    current = image.configs.get((resource_type, one.resource_name), NOTHING)
    changed: dict[str, str | None] = {}
    for name, operation, value in one.operations:
        if not (resource_type is ResourceType.TOPIC and name in REMOVED):
            changed[name] = _new_value(rows, name, Operation(operation), value, current, broker)
    explicit = changed
    if one.replace_all:
        changed = {**dict.fromkeys(name for name in current if name not in changed), **changed}
    result = {name: value for name, value in {**current, **changed}.items() if value is not None}
    _check_result(image, one, result, changed, broker)
    if verdicts is not None:
        # As in Kafka: of a broker all that is named, else what becomes another value; nothing that
        # AlterConfigs removes by not naming it.
        every = resource_type is ResourceType.BROKER
        altered = {name: value for name, value in explicit.items() if every or current.get(name) != value}
        verdicts.about_configs(resource_type.name.lower(), one.resource_name, altered)
    changed = {name: value for name, value in changed.items() if current.get(name) != value}
    return ConfigsChanged(resource_type, one.resource_name, changed) if changed else None


def _check_operations(one: AlterResource) -> None:
    names = [name for name, _, _ in one.operations]
    if len(set(names)) < len(names):
        raise _bad_request("Error due to duplicate config keys")
    missing = [name for name, op, value in one.operations if value is None and op != Operation.DELETE]
    if missing:
        raise _bad_request(f"Null value not supported for : {', '.join(missing)}")
    for _, operation, _ in one.operations:
        if operation not in Operation.__members__.values():
            raise _bad_request(f"Unknown operations type {operation}")


def _new_value(
    rows: Mapping[str, Setting],
    name: str,
    operation: Operation,
    value: str | None,
    current: Mapping[str, str],
    broker: BrokerSettings,
) -> str | None:
    if operation is Operation.SET:
        return value
    if operation is Operation.DELETE or value is None:
        return None
    row = rows.get(name)
    if row is None or row.kind is not Kind.LIST:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {name} because its type is not LIST.",
        )
    base = current.get(name)
    entries = (
        list(inherited_value(row, broker) or ())
        if base is None
        else [part for part in base.split(",") if part]
    )
    named = dict.fromkeys(value.split(","))  # a value may have thousands of entries
    if operation is Operation.SUBTRACT:
        return ",".join(entry for entry in entries if entry not in named)
    known = set(entries)
    return ",".join([*entries, *(entry for entry in named if entry not in known)])


def _check_result(
    image: Image,
    one: AlterResource,
    result: Mapping[str, str],
    changed: Mapping[str, str | None],
    broker: BrokerSettings,
) -> None:
    name = one.resource_name
    if one.resource_type == ResourceType.TOPIC:
        if not name:
            raise _bad_request("Default topic resources are not allowed.")
        checked_topic_configs(result)
        if name not in image.topics:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    elif one.resource_type == ResourceType.GROUP:
        if not name:
            raise _bad_request("Default group resources are not allowed.")
        check_group_configs(result, broker)
    else:
        _check_broker_name(image, name)
        if MIN_ISR in changed and keeps_eligible(image):
            _check_min_isr(name, changed[MIN_ISR], image.configs.get((ResourceType.BROKER, name), NOTHING))
        check_broker_configs(result, changed, for_all=not name, takes_unknown=one.replace_all)
        if not _CLEANER.isdisjoint(changed):
            threads, size = (
                int(result.get(each) or broker.get(each))
                for each in ("log.cleaner.threads", "log.cleaner.dedupe.buffer.size")
            )
            check_cleaner(threads, size)


def _check_min_isr(name: str, value: str | None, current: Mapping[str, str]) -> None:
    """Refuse one for a single broker, and removing that for all, as Kafka does (features.py has the reason).

    A cluster from before this rule may have one for a single broker: it may stay and may be removed.
    """
    if not name and value is None:
        raise Refusal(
            ErrorCode.INVALID_CONFIG, f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
        )
    if name and (MIN_ISR not in current or value not in (None, current[MIN_ISR])):
        raise Refusal(
            ErrorCode.INVALID_CONFIG, f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
        )


def _check_broker_name(image: Image, name: str) -> None:
    if not name:
        return
    if not name.isdecimal():
        raise _bad_request(f"Node id must be an integer, but it is: {name}")
    if int(name) not in image.brokers:
        known = ", ".join(map(str, sorted(image.brokers)))
        raise _bad_request(f"Unexpected broker id, expected {known}, but received {name}")


def _bad_request(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


_ROWS: Mapping[int, Mapping[str, Setting]] = {
    ResourceType.TOPIC: TopicSettings.ROWS,
    ResourceType.BROKER: BrokerSettings.ROWS,
    ResourceType.GROUP: GroupSettings.ROWS,
}
