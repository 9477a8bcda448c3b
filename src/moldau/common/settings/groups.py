"""The broker's settings about groups and committed offsets."""

from moldau.common.settings.checks import at_least, between, each_of, one_of_any_case
from moldau.common.settings.guards import with_classic
from moldau.common.settings.rows import MAX_INT, SEGMENT_BYTES_MIN, Scope
from moldau.common.settings.table import SettingsObject, integer, listing, long, part, short, text


@part
class GroupCoordinatorSettings(SettingsObject):
    """Classic groups, consumer groups (KIP-848), and the offsets topic."""

    group_min_session_timeout_ms: int = integer(
        6000, "The shortest session timeout that a member of a classic group may ask for, in milliseconds."
    )
    group_max_session_timeout_ms: int = integer(
        1_800_000,
        "The longest session timeout that a member of a classic group may ask for, in milliseconds.",
    )
    group_initial_rebalance_delay_ms: int = integer(
        3000,
        "How long an empty classic group waits for more members before its first rebalance, in milliseconds.",
    )
    group_max_size: int = integer(MAX_INT, "The most members that a classic group may have.", at_least(1))
    offsets_topic_num_partitions: int = integer(
        50, "How many partitions __consumer_offsets gets; it is fixed once the topic exists.", at_least(1)
    )
    offsets_topic_replication_factor: int = short(
        3,
        "How many replicas __consumer_offsets gets. A cluster with fewer live brokers has no groups before "
        "there are enough; a single broker makes it with one.",
        at_least(1),
    )
    offsets_topic_segment_bytes: int = integer(
        104_857_600,
        "segment.bytes of __consumer_offsets; Kafka takes less, and then cannot make the topic.",
        at_least(SEGMENT_BYTES_MIN),
    )
    offsets_retention_minutes: int = integer(
        10_080, "How long committed offsets outlive the last member of their group, in minutes.", at_least(1)
    )
    offsets_retention_check_interval_ms: int = long(
        600_000, "The interval of checks for expired offsets, in milliseconds.", at_least(1)
    )
    offset_metadata_max_bytes: int = integer(
        4096, "The most bytes of metadata that a committed offset may carry."
    )
    offsets_commit_timeout_ms: int = integer(
        5000,
        "How long an offset commit (or another change of a group) waits for its replicas, in milliseconds.",
        at_least(1),
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = listing(
        ("classic", "consumer", "streams"),
        "The group protocols that are served: without consumer, members of consumer groups (KIP-848) are "
        "answered UNSUPPORTED_VERSION. Moldau serves classic and consumer; share groups are served by the "
        "level of the feature share.version.",
        with_classic("classic", "consumer", "share", "streams"),
    )
    group_consumer_session_timeout_ms: int = integer(
        45_000,
        "How long a member stays in a consumer group without a heartbeat, in milliseconds.",
        at_least(1),
    )
    group_consumer_min_session_timeout_ms: int = integer(
        45_000, "The least that a group may set for consumer.session.timeout.ms.", at_least(1)
    )
    group_consumer_max_session_timeout_ms: int = integer(
        60_000, "The most that a group may set for consumer.session.timeout.ms.", at_least(1)
    )
    group_consumer_heartbeat_interval_ms: int = integer(
        5000, "The heartbeat interval of members of a consumer group, in milliseconds.", at_least(1)
    )
    group_consumer_min_heartbeat_interval_ms: int = integer(
        5000, "The least that a group may set for consumer.heartbeat.interval.ms.", at_least(1)
    )
    group_consumer_max_heartbeat_interval_ms: int = integer(
        15_000, "The most that a group may set for consumer.heartbeat.interval.ms.", at_least(1)
    )
    group_consumer_max_size: int = integer(
        MAX_INT, "The most members that a consumer group may have.", at_least(1)
    )
    group_consumer_assignors: tuple[str, ...] = listing(
        ("uniform", "range"),
        "The server-side assignors, the default first. Moldau knows uniform and range.",
        each_of("uniform", "range"),
    )
    group_consumer_migration_policy: str = text(
        "bidirectional",
        "Whether a group may change between the classic and the consumer protocol while it has members.",
        one_of_any_case("disabled", "downgrade", "upgrade", "bidirectional"),
    )
    group_consumer_regex_refresh_interval_ms: int = integer(
        600_000,
        "How often, in milliseconds, regular-expression subscriptions are resolved anew.",
        at_least(10_000),
    )
    group_consumer_assignment_interval_ms: int = integer(
        1000,
        "The least time between two assignments of a large consumer group, in milliseconds; smaller groups "
        "are assigned sooner, by their size.",
        between(0, 15_000),
        scope=Scope.CLUSTER_WIDE,
    )
    group_consumer_min_assignment_interval_ms: int = integer(
        0,
        "The shortest consumer.assignment.interval.ms that a group may be given, in milliseconds.",
        at_least(0),
    )
    group_consumer_max_assignment_interval_ms: int = integer(
        15_000,
        "The longest consumer.assignment.interval.ms that a group may be given, in milliseconds.",
        at_least(0),
    )
