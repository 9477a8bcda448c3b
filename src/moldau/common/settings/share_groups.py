"""The broker's settings about share groups (KIP-932) and streams groups (KIP-1071). Neither is served yet;
they are accepted and described."""

from moldau.common.settings.rows import MAX_INT, Scope
from moldau.common.settings.table import SettingsObject, integer, listing, part, short

_CLUSTER = Scope.CLUSTER_WIDE


@part
class ShareGroupSettings(SettingsObject):
    """Share groups, their coordinator, and streams groups."""

    group_share_assignment_interval_ms: int = integer(
        1000,
        "The shortest time between two assignments of a share group, in milliseconds.",
        scope=_CLUSTER,
        effective=False,
    )
    group_share_assignors: tuple[str, ...] = listing(
        ("simple",), "The assignors of share groups.", effective=False
    )
    group_share_max_assignment_interval_ms: int = integer(
        15_000,
        "The longest group.share.assignment.interval.ms that may be set, in milliseconds.",
        effective=False,
    )
    group_share_max_delivery_count_limit: int = integer(
        10, "The highest delivery count limit that a share group may have.", effective=False
    )
    group_share_max_heartbeat_interval_ms: int = integer(
        15_000,
        "The longest heartbeat interval that a share group may have, in milliseconds.",
        effective=False,
    )
    group_share_max_partition_max_record_locks: int = integer(
        4000, "The most locked records of a partition that a share group may be allowed.", effective=False
    )
    group_share_max_record_lock_duration_ms: int = integer(
        60_000, "The longest record lock that a share group may have, in milliseconds.", effective=False
    )
    group_share_max_session_timeout_ms: int = integer(
        60_000, "The longest session timeout that a share group may have, in milliseconds.", effective=False
    )
    group_share_max_share_sessions: int = integer(
        2000, "The most share sessions that a broker remembers.", effective=False
    )
    group_share_min_assignment_interval_ms: int = integer(
        0,
        "The shortest group.share.assignment.interval.ms that may be set, in milliseconds.",
        effective=False,
    )
    group_share_min_delivery_count_limit: int = integer(
        2, "The lowest delivery count limit that a share group may have.", effective=False
    )
    group_share_min_heartbeat_interval_ms: int = integer(
        5000, "The shortest heartbeat interval that a share group may have, in milliseconds.", effective=False
    )
    group_share_min_partition_max_record_locks: int = integer(
        100, "The fewest locked records of a partition that a share group may be allowed.", effective=False
    )
    group_share_min_record_lock_duration_ms: int = integer(
        15_000, "The shortest record lock that a share group may have, in milliseconds.", effective=False
    )
    group_share_min_session_timeout_ms: int = integer(
        45_000, "The shortest session timeout that a share group may have, in milliseconds.", effective=False
    )
    group_streams_assignment_interval_ms: int = integer(
        1000,
        "The shortest time between two assignments of a streams group, in milliseconds.",
        scope=_CLUSTER,
        effective=False,
    )
    group_streams_heartbeat_interval_ms: int = integer(
        5000,
        "The heartbeat interval of members of a streams group, in milliseconds.",
        effective=False,
    )
    group_streams_initial_rebalance_delay_ms: int = integer(
        3000, "How long a new streams group waits for more members, in milliseconds.", effective=False
    )
    group_streams_max_assignment_interval_ms: int = integer(
        15_000,
        "The longest group.streams.assignment.interval.ms that may be set, in milliseconds.",
        effective=False,
    )
    group_streams_max_heartbeat_interval_ms: int = integer(
        15_000,
        "The longest heartbeat interval that a streams group may have, in milliseconds.",
        effective=False,
    )
    group_streams_max_session_timeout_ms: int = integer(
        60_000, "The longest session timeout that a streams group may have, in milliseconds.", effective=False
    )
    group_streams_max_size: int = integer(MAX_INT, "The most members of a streams group.", effective=False)
    group_streams_max_standby_replicas: int = integer(
        2, "The most standby copies of a task that a streams group may have.", effective=False
    )
    group_streams_min_assignment_interval_ms: int = integer(
        0,
        "The shortest group.streams.assignment.interval.ms that may be set, in milliseconds.",
        effective=False,
    )
    group_streams_min_heartbeat_interval_ms: int = integer(
        5000,
        "The shortest heartbeat interval that a streams group may have, in milliseconds.",
        effective=False,
    )
    group_streams_min_session_timeout_ms: int = integer(
        45_000,
        "The shortest session timeout that a streams group may have, in milliseconds.",
        effective=False,
    )
    group_streams_num_standby_replicas: int = integer(
        0, "How many standby copies of each task a streams group has.", effective=False
    )
    group_streams_session_timeout_ms: int = integer(
        45_000,
        "How long a member stays in a streams group without a heartbeat, in milliseconds.",
        effective=False,
    )
    share_coordinator_append_linger_ms: int = integer(
        -1,
        "How long the share coordinator gathers records for one write, in milliseconds; -1: as it sees fit.",
        effective=False,
    )
    share_coordinator_cached_buffer_max_bytes: int = integer(
        1_048_588,
        "The largest write buffer that the share coordinator keeps for reuse, in bytes.",
        scope=_CLUSTER,
        effective=False,
    )
    share_coordinator_load_buffer_size: int = integer(
        5_242_880, "How many bytes are read at once when share groups are loaded.", effective=False
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = integer(
        500, "How many updates of a share group's state are written between two snapshots.", effective=False
    )
    share_coordinator_state_topic_compression_codec: int = integer(
        0, "How the states of share groups are compressed: 0 is not at all.", effective=False
    )
    share_coordinator_state_topic_min_isr: int = short(
        2, "The in-sync replicas that a write of share group states needs.", effective=False
    )
    share_coordinator_state_topic_num_partitions: int = integer(
        50, "The partitions of the topic of share group states.", effective=False
    )
    share_coordinator_state_topic_replication_factor: int = short(
        3, "The replicas of the topic of share group states.", effective=False
    )
    share_coordinator_state_topic_segment_bytes: int = integer(
        104_857_600, "The segment size of the topic of share group states, in bytes.", effective=False
    )
    share_coordinator_threads: int = integer(1, "Threads of the share coordinator.", effective=False)
    share_coordinator_write_timeout_ms: int = integer(
        5000, "How long a write of the share coordinator may take, in milliseconds.", effective=False
    )
    share_fetch_purgatory_purge_interval_requests: int = integer(
        1000, "After how many finished requests waiting ShareFetch requests are tidied up.", effective=False
    )
