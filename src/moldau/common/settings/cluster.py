"""Broker settings of identity, topic creation, replication, election and features."""

from moldau.common.settings.checks import at_least, one_of
from moldau.common.settings.guards import python_class
from moldau.common.settings.rows import MAX_LONG, SEGMENT_BYTES_MIN, Kind, Scope
from moldau.common.settings.table import (
    SettingsObject,
    boolean,
    integer,
    listing,
    long,
    part,
    short,
    text,
)

_CLUSTER = Scope.CLUSTER_WIDE


@part
class ClusterSettings(SettingsObject):
    """Identity, topics, replication and the controller."""

    config_providers: tuple[str, ...] = listing(
        (),
        "Names of the providers that fill in variables of the configuration: ${file:path:key}, "
        "${dir:path:name}, ${env:name} (KIP-297).",
        scope=Scope.CLUSTER_WIDE,
    )
    node_id: int = integer(
        1,
        "The number of this broker in its cluster. Moldau's default is 1; Kafka's is none.",
        at_least(0),
        synonyms=("broker.id",),
    )
    broker_id: int = integer(-1, "The older name of node.id, used when that is unset.", at_least(-1))
    broker_rack: str | None = text(None, "The broker's rack; replicas are spread over racks.")
    auto_create_topics_enable: bool = boolean(
        True, "Whether a topic that a client asks for, and that does not exist, is created."
    )
    num_partitions: int = integer(1, "The default partition count of new topics.", at_least(1))
    default_replication_factor: int = integer(1, "The default replication factor of new topics.", at_least(1))
    delete_topic_enable: bool = boolean(True, "Whether topics can be deleted.")
    create_topic_policy_class_name: str | None = text(
        None,
        "A Python class that may refuse new topics, as module:Class (docs/policies.md). A class of Java is "
        "refused at the start.",
        python_class(),
        kind=Kind.CLASS,
    )
    alter_config_policy_class_name: str | None = text(
        None,
        "A Python class that may refuse changes of settings, as module:Class (docs/policies.md). A class of "
        "Java is refused at the start.",
        python_class(),
        kind=Kind.CLASS,
    )
    moldau_policy_timeout_ms: int = long(
        5_000,
        "How long a policy (create.topic.policy.class.name, alter.config.policy.class.name) may take over "
        "one request, in milliseconds; afterwards the request is refused.",
        at_least(1),
    )
    replica_selector_class: str | None = text(
        None,
        "How the replica is chosen that a consumer reads from (KIP-392): with "
        "org.apache.kafka.common.replica.RackAwareReplicaSelector an in-sync one in the consumer's rack "
        "(client.rack), if there is one; else the leader. There are no other selectors.",
        one_of("org.apache.kafka.common.replica.RackAwareReplicaSelector", "RackAwareReplicaSelector"),
    )
    controlled_shutdown_enable: bool = boolean(
        True, "Whether leadership moves to other brokers before a shutdown."
    )
    controlled_shutdown_max_retries: int = integer(
        3,
        "How many times controlled.shutdown.retry.backoff.ms a shutdown waits for replicas that can lead.",
        at_least(1),
    )
    controlled_shutdown_retry_backoff_ms: int = long(
        5000, "How long one of these waits is, in milliseconds.", at_least(1)
    )
    replica_lag_time_max_ms: int = long(
        30_000, "How long a follower may lag, in milliseconds, before it leaves the in-sync set."
    )
    replica_fetch_max_bytes: int = integer(
        1_048_576, "How many bytes a follower asks for, for each partition.", at_least(0)
    )
    replica_fetch_min_bytes: int = integer(1, "How many bytes a follower waits for.", at_least(0))
    replica_fetch_wait_max_ms: int = integer(500, "How long a follower's fetch waits, in milliseconds.")
    replica_fetch_response_max_bytes: int = integer(
        10_485_760, "The most bytes in one response to a follower.", at_least(0)
    )
    replica_fetch_backoff_ms: int = integer(
        1000,
        "How long a follower leaves a partition out after an error, in milliseconds, at most: the first "
        "pauses are shorter.",
        at_least(0),
    )
    num_replica_fetchers: int = integer(
        1,
        "How many fetch loops a follower runs against each leader.",
        at_least(1),
        scope=_CLUSTER,
    )
    replica_high_watermark_checkpoint_interval_ms: int = long(
        5000, "The interval of high watermark checkpoints, in milliseconds.", at_least(1)
    )
    replica_socket_timeout_ms: int = integer(
        30_000, "How long a follower waits for the response to a fetch, in milliseconds.", at_least(1)
    )
    auto_leader_rebalance_enable: bool = boolean(
        True, "Whether leadership returns to the preferred replicas by itself."
    )
    leader_imbalance_check_interval_seconds: int = long(
        300, "The interval of checks for leader imbalance, in seconds.", at_least(1)
    )
    leader_imbalance_per_broker_percentage: int = integer(
        10,
        "How many percent of the partitions that prefer a broker others may lead, before it gets them back.",
        at_least(0),
    )
    initial_broker_registration_timeout_ms: int = integer(
        60_000, "How long a starting broker waits for a node.id that is in use, in milliseconds."
    )
    metadata_log_dir: str | None = text(
        None, "The folder of the metadata file; unset, the first log folder holds it."
    )
    leader_replication_throttled_rate: int = long(
        MAX_LONG,
        "The most bytes a second that leaders send to throttled replicas.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    follower_replication_throttled_rate: int = long(
        MAX_LONG,
        "The most bytes a second that throttled replicas fetch.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    replication_quota_window_num: int = integer(
        11, "Over how many windows the rates of throttled replicas are measured.", at_least(1)
    )
    replication_quota_window_size_seconds: int = integer(
        1, "How many seconds each of these windows has.", at_least(1)
    )
    alter_log_dirs_replication_quota_window_num: int = integer(
        11, "Over how many windows the rate of moves between log directories is measured.", at_least(1)
    )
    alter_log_dirs_replication_quota_window_size_seconds: int = integer(
        1, "How many seconds each of these windows has.", at_least(1)
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = long(
        MAX_LONG,
        "The most bytes a second that moving replicas between folders takes.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )


@part
class TransactionSettings(SettingsObject):
    """Transactions: the coordinator's log and its timeouts."""

    transaction_state_log_num_partitions: int = integer(
        50, "How many partitions __transaction_state gets.", at_least(1)
    )
    transaction_state_log_replication_factor: int = short(
        3,
        "How many replicas __transaction_state gets. A cluster with fewer live brokers has no transactions "
        "before there are enough; a single broker makes it with one.",
        at_least(1),
    )
    transaction_state_log_min_isr: int = integer(
        2, "min.insync.replicas of __transaction_state.", at_least(1)
    )
    transaction_state_log_segment_bytes: int = integer(
        104_857_600,
        "segment.bytes of __transaction_state; Kafka takes less, and then cannot make the topic.",
        at_least(SEGMENT_BYTES_MIN),
    )
    transaction_max_timeout_ms: int = integer(
        900_000, "The longest transaction timeout that a producer may ask for, in milliseconds.", at_least(1)
    )
    transactional_id_expiration_ms: int = integer(
        604_800_000, "How long an unused transactional id is kept, in milliseconds.", at_least(1)
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = integer(
        10_000,
        "How often transactions past their timeout are looked for and aborted, in milliseconds: one may last "
        "so much longer than its producer's transaction.timeout.ms.",
        at_least(1),
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = integer(
        3_600_000, "How often expired transactional ids are removed, in milliseconds.", at_least(1)
    )
    transaction_partition_verification_enable: bool = boolean(
        True,
        "Whether a leader asks the coordinator before it accepts a transactional write (KIP-890).",
        scope=_CLUSTER,
    )
