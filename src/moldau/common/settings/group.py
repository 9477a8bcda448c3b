"""GroupSettings: the settings of one consumer or share group, each with the broker settings of its
default."""

from collections.abc import Mapping
from typing import ClassVar

from moldau.common.settings.checks import at_least, one_of_any_case, share_offset_reset
from moldau.common.settings.rows import Setting
from moldau.common.settings.table import SettingsObject, boolean, integer, table, text
from moldau.common.settings.without_effect import without_effect


@table
class GroupSettings(SettingsObject):
    """The settings of one group (kafka-configs --entity-type groups)."""

    FROM_FILE: ClassVar[Mapping[str, Setting]] = without_effect("group")

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
    share_assignment_interval_ms: int = integer(
        1_000,
        "The shortest time between two assignments of this share group, in milliseconds.",
        at_least(0),
        synonyms=("group.share.assignment.interval.ms",),
    )
    share_auto_offset_reset: str = text(
        "latest",
        "Where a share group starts in a partition that it has not read yet: latest, earliest, or "
        "by_duration:PnDTnHnMn.nS, so long before.",
        share_offset_reset(),
    )
    share_delivery_count_limit: int = integer(
        5,
        "The most deliveries of a record in this share group.",
        at_least(2),
        synonyms=("group.share.delivery.count.limit",),
    )
    share_heartbeat_interval_ms: int = integer(
        5_000,
        "The heartbeat interval of members of this share group, in milliseconds.",
        at_least(1),
        synonyms=("group.share.heartbeat.interval.ms",),
    )
    share_isolation_level: str = text(
        "read_uncommitted",
        "Whether a share group reads records of transactions that are not committed.",
        one_of_any_case("read_committed", "read_uncommitted"),
    )
    share_partition_max_record_locks: int = integer(
        2_000,
        "How many records of a partition may be locked for this share group.",
        at_least(100),
        synonyms=("group.share.partition.max.record.locks",),
    )
    share_record_lock_duration_ms: int = integer(
        30_000,
        "How long a member of this share group may hold the lock of a record, in milliseconds.",
        at_least(1000),
        synonyms=("group.share.record.lock.duration.ms",),
    )
    share_renew_acknowledge_enable: bool = boolean(
        True, "Whether members of this share group may renew record locks."
    )
    share_session_timeout_ms: int = integer(
        45_000,
        "How long a member stays in this share group without a heartbeat, in milliseconds.",
        at_least(1),
        synonyms=("group.share.session.timeout.ms",),
    )
