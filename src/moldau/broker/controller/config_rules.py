"""Validates settings of a topic, group or broker: known names, valid values, consistent with one another."""

from collections.abc import Iterable, Mapping

from moldau.broker.controller.decision import Refusal
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.checks import cleaner_complaint
from moldau.common.settings.group import GroupSettings
from moldau.common.settings.prefixed import RENEWED, changes_live, row_of
from moldau.common.settings.rows import Scope, SettingError
from moldau.common.settings.topic import REMOVED, TopicSettings


def checked_topic_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """A topic's settings, checked; those that Kafka 4 removed are left out. Refusal: INVALID_CONFIG."""
    checked: dict[str, str] = {}
    values: dict[str, object] = {}
    missing = sorted(name for name, value in configs.items() if value is None)
    if missing:
        raise _invalid(f"Null value not supported for topic configs: {','.join(missing)}")
    for name, value in configs.items():
        if name in REMOVED or value is None:
            continue
        row = TopicSettings.ROWS.get(name)
        if row is None:
            raise _invalid(f"Unknown topic config name: {name}{_suggestion(name, TopicSettings.ROWS)}")
        try:
            values[row.attribute] = row.parse(value)
        except SettingError as error:
            raise _invalid(error.sentence) from None
        checked[name] = value
    if values.get("remote_storage_enable"):  # closed segments would never leave the broker's disks
        raise _invalid(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote "
            "log storage."
        )
    settings = TopicSettings(**values)  # type: ignore[arg-type]
    if settings.min_compaction_lag_ms > settings.max_compaction_lag_ms:
        raise _invalid(
            f"conflict topic config setting min.compaction.lag.ms ({settings.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({settings.max_compaction_lag_ms})"
        )
    return checked


def check_group_configs(configs: Mapping[str, str], broker: BrokerSettings) -> None:
    """Refuse settings that a group may not have (INVALID_CONFIG); the broker's limits hold."""
    values: dict[str, int] = {}
    for name, value in configs.items():
        row = GroupSettings.ROWS.get(name)
        if row is None:
            raise _invalid(f"Unknown group config name: {name}{_suggestion(name, GroupSettings.ROWS)}")
        try:
            values[name] = row.parse(value)
        except SettingError as error:
            raise _invalid(error.sentence) from None
    for kind, shorts in _BOUNDED.items():
        for short in shorts:
            _check_bounds(kind, short, values, broker)
        session_name, heartbeat_name = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        session = values.get(session_name, broker.get(f"group.{session_name}"))
        heartbeat = values.get(heartbeat_name, broker.get(f"group.{heartbeat_name}"))
        if session <= heartbeat:
            raise _invalid(f"{session_name} must be greater than {heartbeat_name}")


_TIMES = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
_BOUNDED = {
    "consumer": _TIMES,
    "share": (*_TIMES, "record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"),
}
"""The settings of groups that the broker bounds."""


def _check_bounds(kind: str, short: str, values: Mapping[str, int], broker: BrokerSettings) -> None:
    name = f"{kind}.{short}"
    if name not in values:
        return
    low_name, high_name = f"group.{kind}.min.{short}", f"group.{kind}.max.{short}"
    low, high = broker.get(low_name), broker.get(high_name)
    if values[name] < low:
        raise _invalid(f"{name} must be greater than or equal to {low_name} ({low})")
    if values[name] > high:
        raise _invalid(f"{name} must be less than or equal to {high_name} ({high})")


def check_broker_configs(
    configs: Mapping[str, str], names: Iterable[str], *, for_all: bool, takes_unknown: bool = False
) -> None:
    """Refuse dynamic settings that a broker may not have. `names`: those that are being changed. The error is
    INVALID_REQUEST, not INVALID_CONFIG, as in Kafka.

    `takes_unknown`: of AlterConfigs, which replaces all settings. Old tools send back whatever they have
    read, of plug-ins too; Kafka keeps such names, and one of them must not stop the others.
    """
    # Removing an unknown name is allowed: it may have been stored by another version.
    names = [name for name in names if name in configs or name in BrokerSettings.ROWS]
    rows = {name: row for name in names if (row := row_of(name)) is not None}
    if takes_unknown:
        names = [name for name in names if name in rows]
    for name in names:
        if name not in rows:
            raise _bad_request(f"Unknown broker config name: {name}{_suggestion(name, BrokerSettings.ROWS)}")
    read_only = sorted(name for name in names if not changes_live(name))
    if read_only:
        raise _bad_request(f"Cannot update these configs dynamically: [{', '.join(read_only)}]")
    if for_all:
        single = sorted(
            name for name in names if rows[name].scope is Scope.PER_BROKER or rows[name].name in RENEWED
        )
        if single:
            raise _bad_request(
                "Cannot update these configs at default cluster level, broker id must be specified: "
                f"[{', '.join(single)}]"
            )
    for name in names:
        if name in configs:
            try:
                rows[name].parse(configs[name])
            except SettingError as error:
                raise _bad_request(error.sentence) from None
            if rows[name].name == "sasl.jaas.config":
                _check_jaas(name, configs[name])


def check_cleaner(threads: int, dedupe_buffer_size: int) -> None:
    """Refuse less than a megabyte of keys for each thread, as Kafka does."""
    complaint = cleaner_complaint(threads, dedupe_buffer_size)
    if complaint is not None:
        raise _bad_request(complaint)


def _check_jaas(name: str, text: str) -> None:
    """Refuse an entry that cannot be read: it would lock everybody out."""
    from moldau.common.credentials.jaas import JaasError, parse_jaas
    from moldau.common.settings.providers import variables

    if variables(text):
        return  # each broker fills it in from its own files
    try:
        parse_jaas(text)
    except JaasError as error:
        raise _bad_request(f"Invalid value [hidden] for configuration {name}: {error}") from None


def _suggestion(name: str, known: Mapping[str, object]) -> str:
    import difflib  # imported only for an unknown name

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ""


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_CONFIG, message)


def _bad_request(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
