"""The broker's settings about share groups (KIP-932) and their coordinator."""

from moldau.common.settings.checks import at_least, between
from moldau.common.settings.rows import SEGMENT_BYTES_MIN, Scope
from moldau.common.settings.table import SettingsObject, integer, part, short


@part
class ShareGroupSettings(SettingsObject):
    """Share groups, and the topic of their states."""

    group_share_assignment_interval_ms: int = integer(
        1000,
        "The shortest time between two assignments of a share group, in milliseconds.",
        between(0, 15_000),
        scope=Scope.CLUSTER_WIDE,
    )
    group_share_delivery_count_limit: int = integer(
        5,
        "How often a share group delivers a record before it is archived.",
        between(2, 10),
    )
    group_share_heartbeat_interval_ms: int = integer(
        5000,
        "The heartbeat interval of members of a share group, in milliseconds.",
        at_least(1),
    )
    group_share_max_assignment_interval_ms: int = integer(
        15_000,
        "The longest group.share.assignment.interval.ms that may be set, in milliseconds.",
        at_least(0),
    )
    group_share_max_delivery_count_limit: int = integer(
        10,
        "The highest delivery count limit that a share group may have.",
        between(2, 25),
    )
    group_share_max_heartbeat_interval_ms: int = integer(
        15_000,
        "The longest heartbeat interval that a share group may have, in milliseconds.",
        at_least(0),
    )
    group_share_max_partition_max_record_locks: int = integer(
        4000,
        "The most locked records of a partition that a share group may be allowed.",
        between(2_000, 10_000),
    )
    group_share_max_record_lock_duration_ms: int = integer(
        60_000,
        "The longest record lock that a share group may have, in milliseconds.",
        between(30_000, 3_600_000),
    )
    group_share_max_session_timeout_ms: int = integer(
        60_000,
        "The longest session timeout that a share group may have, in milliseconds.",
        at_least(0),
    )
    group_share_max_share_sessions: int = integer(
        2000,
        "The most share sessions that a broker remembers.",
        at_least(1),
    )
    group_share_max_size: int = integer(
        200,
        "The most members that a share group may have.",
        between(1, 1_000),
    )
    group_share_min_assignment_interval_ms: int = integer(
        0,
        "The shortest group.share.assignment.interval.ms that may be set, in milliseconds.",
        at_least(0),
    )
    group_share_min_delivery_count_limit: int = integer(
        2,
        "The lowest delivery count limit that a share group may have.",
        between(2, 5),
    )
    group_share_min_heartbeat_interval_ms: int = integer(
        5000,
        "The shortest heartbeat interval that a share group may have, in milliseconds.",
        at_least(0),
    )
    group_share_min_partition_max_record_locks: int = integer(
        100,
        "The fewest locked records of a partition that a share group may be allowed.",
        between(100, 2_000),
    )
    group_share_min_record_lock_duration_ms: int = integer(
        15_000,
        "The shortest record lock that a share group may have, in milliseconds.",
        between(1_000, 30_000),
    )
    group_share_min_session_timeout_ms: int = integer(
        45_000,
        "The shortest session timeout that a share group may have, in milliseconds.",
        at_least(0),
    )
    group_share_partition_max_record_locks: int = integer(
        2000,
        "How many records of a partition a share group may have in flight: from the first that is not "
        "dealt with to the last that was delivered.",
        between(100, 10_000),
    )
    group_share_record_lock_duration_ms: int = integer(
        30_000,
        "How long a member of a share group may hold the lock of a record, in milliseconds.",
        between(1_000, 3_600_000),
    )
    group_share_session_timeout_ms: int = integer(
        45_000,
        "How long a member stays in a share group without a heartbeat, in milliseconds.",
        at_least(1),
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = integer(
        500,
        "How many updates of a share group's state are written between two snapshots.",
        between(0, 500),
    )
    share_coordinator_state_topic_min_isr: int = short(
        2,
        "The in-sync replicas that a write of share group states needs.",
        at_least(1),
    )
    share_coordinator_state_topic_num_partitions: int = integer(
        50,
        "How many partitions __share_group_state gets; it is fixed once the topic exists.",
        at_least(1),
    )
    share_coordinator_state_topic_replication_factor: int = short(
        3,
        "How many replicas __share_group_state gets. A cluster with fewer live brokers has no share "
        "groups before there are enough; a single broker makes it with one.",
        at_least(1),
    )
    share_coordinator_state_topic_segment_bytes: int = integer(
        104_857_600,
        "The segment size of the topic of share group states, in bytes.",
        at_least(SEGMENT_BYTES_MIN),
    )
    share_coordinator_write_timeout_ms: int = integer(
        5000,
        "How long a write of the share coordinator may take, in milliseconds.",
        at_least(1),
    )
