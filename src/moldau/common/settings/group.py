"""GroupSettings: the settings of one consumer group, each with the broker settings of its default."""

from moldau.common.settings.checks import at_least, between, one_of_any_case
from moldau.common.settings.table import SettingsObject, boolean, integer, table, text


@table
class GroupSettings(SettingsObject):
    """The settings of one group (kafka-configs --entity-type groups)."""

    consumer_session_timeout_ms: int = integer(
        45_000,
        "How long a member stays in this consumer group without a heartbeat, in milliseconds.",
        at_least(1),
        synonyms=("group.consumer.session.timeout.ms",),
    )
    consumer_heartbeat_interval_ms: int = integer(
        5000,
        "The heartbeat interval of members of this consumer group, in milliseconds.",
        at_least(1),
        synonyms=("group.consumer.heartbeat.interval.ms",),
    )
    consumer_assignment_interval_ms: int = integer(
        1000,
        "The shortest time between two assignments of this consumer group, in milliseconds.",
        at_least(0),
        synonyms=("group.consumer.assignment.interval.ms",),
    )
    share_session_timeout_ms: int = integer(
        45_000,
        "How long a member stays in this share group without a heartbeat, in milliseconds.",
        at_least(1),
        synonyms=("group.share.session.timeout.ms",),
        effective=False,
    )
    share_heartbeat_interval_ms: int = integer(
        5000,
        "The heartbeat interval of members of this share group, in milliseconds.",
        at_least(1),
        synonyms=("group.share.heartbeat.interval.ms",),
        effective=False,
    )
    share_record_lock_duration_ms: int = integer(
        30_000,
        "How long a member of this share group may hold the lock of a record, in milliseconds.",
        between(1000, 3_600_000),
        synonyms=("group.share.record.lock.duration.ms",),
        effective=False,
    )
    share_auto_offset_reset: str = text(
        "latest", "Where a share group starts in a partition that it has not read yet.", effective=False
    )
    share_isolation_level: str = text(
        "read_uncommitted",
        "Whether a share group reads records of transactions that are not committed.",
        one_of_any_case("read_committed", "read_uncommitted"),
        effective=False,
    )
    share_assignment_interval_ms: int = integer(
        1000,
        "The shortest time between two assignments of this share group, in milliseconds.",
        synonyms=("group.share.assignment.interval.ms",),
        effective=False,
    )
    share_delivery_count_limit: int = integer(
        5,
        "The most deliveries of a record in this share group.",
        synonyms=("group.share.delivery.count.limit",),
        effective=False,
    )
    share_partition_max_record_locks: int = integer(
        2000,
        "How many records of a partition may be locked for this share group.",
        synonyms=("group.share.partition.max.record.locks",),
        effective=False,
    )
    share_renew_acknowledge_enable: bool = boolean(
        True, "Whether members of this share group may renew record locks.", effective=False
    )
    streams_assignment_interval_ms: int = integer(
        1000,
        "The shortest time between two assignments of this streams group, in milliseconds.",
        synonyms=("group.streams.assignment.interval.ms",),
        effective=False,
    )
    streams_heartbeat_interval_ms: int = integer(
        5000,
        "The heartbeat interval of members of this streams group, in milliseconds.",
        synonyms=("group.streams.heartbeat.interval.ms",),
        effective=False,
    )
    streams_initial_rebalance_delay_ms: int = integer(
        3000,
        "How long this streams group waits for more members when it is new, in milliseconds.",
        synonyms=("group.streams.initial.rebalance.delay.ms",),
        effective=False,
    )
    streams_num_standby_replicas: int = integer(
        0,
        "How many standby copies of each task this streams group has.",
        synonyms=("group.streams.num.standby.replicas",),
        effective=False,
    )
    streams_session_timeout_ms: int = integer(
        45_000,
        "How long a member stays in this streams group without a heartbeat, in milliseconds.",
        synonyms=("group.streams.session.timeout.ms",),
        effective=False,
    )
