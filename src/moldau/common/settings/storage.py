"""The broker's settings about its log folders, and the defaults of every topic."""

from moldau.common.settings.checks import at_least, between, each_of, one_of
from moldau.common.settings.guards import must_be_empty, must_be_false
from moldau.common.settings.rows import MAX_LONG, SEGMENT_BYTES_MIN, Scope
from moldau.common.settings.table import SettingsObject, boolean, double, integer, listing, long, part, text
from moldau.common.settings.topic import COMPRESSIONS, TopicSettings

_CLUSTER = Scope.CLUSTER_WIDE
_TOPIC = TopicSettings.ROWS


@part
class TopicDefaults(SettingsObject):
    """What a topic gets that does not say otherwise (synonyms of the topic settings)."""

    log_cleanup_policy: tuple[str, ...] = listing(
        ("delete",), _TOPIC["cleanup.policy"].documentation, each_of("compact", "delete"), scope=_CLUSTER
    )
    log_retention_ms: int | None = long(
        None,
        "How long records are kept, in milliseconds; unset, log.retention.minutes decides.",
        at_least(-1),
        scope=_CLUSTER,
    )
    log_retention_minutes: int | None = integer(
        None, "How long records are kept, in minutes; unset, log.retention.hours decides."
    )
    log_retention_hours: int = integer(168, "How long records are kept, in hours.")
    log_retention_bytes: int = long(-1, _TOPIC["retention.bytes"].documentation, scope=_CLUSTER)
    log_segment_bytes: int = integer(
        1_073_741_824, _TOPIC["segment.bytes"].documentation, at_least(SEGMENT_BYTES_MIN), scope=_CLUSTER
    )
    log_roll_ms: int | None = long(
        None,
        "The age at which a segment is closed, in milliseconds; unset, log.roll.hours decides.",
        at_least(1),
        scope=_CLUSTER,
    )
    log_roll_hours: int = integer(168, "The age at which a segment is closed, in hours.", at_least(1))
    log_roll_jitter_ms: int | None = long(
        None,
        "The most taken off log.roll.ms at random; unset, log.roll.jitter.hours decides.",
        at_least(0),
        scope=_CLUSTER,
    )
    log_roll_jitter_hours: int = integer(
        0, "The most taken off log.roll.hours at random, in hours.", at_least(0)
    )
    log_index_size_max_bytes: int = integer(
        10_485_760, _TOPIC["segment.index.bytes"].documentation, at_least(4), scope=_CLUSTER
    )
    log_index_interval_bytes: int = integer(
        4096, _TOPIC["index.interval.bytes"].documentation, at_least(0), scope=_CLUSTER
    )
    min_insync_replicas: int = integer(
        1, _TOPIC["min.insync.replicas"].documentation, at_least(1), scope=_CLUSTER
    )
    moldau_records_check: bool = boolean(True, _TOPIC["moldau.records.check"].documentation, scope=_CLUSTER)
    message_max_bytes: int = integer(
        1_048_588, _TOPIC["max.message.bytes"].documentation, at_least(0), scope=_CLUSTER
    )
    compression_type: str = text(
        "producer", _TOPIC["compression.type"].documentation, one_of(*COMPRESSIONS), scope=_CLUSTER
    )
    compression_gzip_level: int = integer(
        -1, _TOPIC["compression.gzip.level"].documentation, between(-1, 9), scope=_CLUSTER
    )
    compression_lz4_level: int = integer(
        9, _TOPIC["compression.lz4.level"].documentation, between(1, 17), scope=_CLUSTER
    )
    compression_zstd_level: int = integer(
        3, _TOPIC["compression.zstd.level"].documentation, between(-131_072, 22), scope=_CLUSTER
    )
    log_message_timestamp_type: str = text(
        "CreateTime",
        _TOPIC["message.timestamp.type"].documentation,
        one_of("CreateTime", "LogAppendTime"),
        scope=_CLUSTER,
    )
    log_message_timestamp_before_max_ms: int = long(
        MAX_LONG, _TOPIC["message.timestamp.before.max.ms"].documentation, at_least(0), scope=_CLUSTER
    )
    log_message_timestamp_after_max_ms: int = long(
        3_600_000, _TOPIC["message.timestamp.after.max.ms"].documentation, at_least(0), scope=_CLUSTER
    )
    log_cleaner_delete_retention_ms: int = long(
        86_400_000,
        _TOPIC["delete.retention.ms"].documentation,
        at_least(0),
        scope=_CLUSTER,
    )
    log_cleaner_min_compaction_lag_ms: int = long(
        0,
        _TOPIC["min.compaction.lag.ms"].documentation,
        at_least(0),
        scope=_CLUSTER,
    )
    log_cleaner_max_compaction_lag_ms: int = long(
        MAX_LONG,
        _TOPIC["max.compaction.lag.ms"].documentation,
        at_least(1),
        scope=_CLUSTER,
    )
    log_cleaner_min_cleanable_ratio: float = double(
        0.5,
        _TOPIC["min.cleanable.dirty.ratio"].documentation,
        between(0, 1),
        scope=_CLUSTER,
    )
    log_segment_delete_delay_ms: int = long(
        60_000, _TOPIC["file.delete.delay.ms"].documentation, at_least(0), scope=_CLUSTER
    )
    log_flush_interval_messages: int = long(
        MAX_LONG, _TOPIC["flush.messages"].documentation, at_least(1), scope=_CLUSTER
    )
    log_flush_interval_ms: int | None = long(
        None,
        "After how many milliseconds a log is forced to disk; unset, log.flush.scheduler.interval.ms "
        "decides.",
        at_least(0),
        scope=_CLUSTER,
    )
    unclean_leader_election_enable: bool = boolean(
        False,
        _TOPIC["unclean.leader.election.enable"].documentation,
        scope=_CLUSTER,
    )


@part
class StorageSettings(TopicDefaults):
    """Log folders, checkpoints, background work on logs, durability."""

    log_dir: str = text(
        "moldau-data",
        "The folder that holds the partitions, when log.dirs is unset. Moldau's default is a folder in the "
        "working directory (Kafka's is /tmp/kafka-logs, which a restart of the machine may empty).",
    )
    log_dirs: tuple[str, ...] | None = listing(
        None, "The folders that hold the partitions, separated by commas; unset, log.dir is the only one."
    )
    cordoned_log_dirs: tuple[str, ...] = listing(
        (),
        "Folders in which no further partitions are placed. Moldau has no such thing, and refuses to start "
        "with one.",
        must_be_empty(
            "Moldau would place partitions there all the same. Move them away with kafka-reassign-partitions "
            "and take the folder out of log.dirs instead"
        ),
        scope=Scope.PER_BROKER,
        effective=False,
    )
    moldau_durability: str = text(
        "os",
        "When an acknowledged write is on the disk: os leaves it to the operating system, as Kafka does (a "
        "power cut may take the last seconds); group forces it before the acknowledgement, once for all "
        "requests of the moment.",
        one_of("os", "group"),
    )
    log_retention_check_interval_ms: int = long(
        300_000, "How often, in milliseconds, segments are looked at for removal.", at_least(1)
    )
    log_flush_scheduler_interval_ms: int = long(
        MAX_LONG, "How often, in milliseconds, logs are looked at for forcing them to disk.", at_least(1)
    )
    log_flush_offset_checkpoint_interval_ms: int = integer(
        60_000, "How often, in milliseconds, the recovery points are written down.", at_least(0)
    )
    num_recovery_threads_per_data_dir: int = integer(
        2, "Threads for each log folder that read logs in after a start.", at_least(1), scope=_CLUSTER
    )
    log_cleaner_enable: bool = boolean(True, "Whether compaction runs.")
    log_cleaner_threads: int = integer(
        1, "How many processes may compact at once.", at_least(0), scope=_CLUSTER
    )
    log_cleaner_dedupe_buffer_size: int = long(
        134_217_728,
        "Memory for the keys that compaction looks at, in bytes.",
        scope=_CLUSTER,
    )
    log_cleaner_io_buffer_size: int = integer(
        524_288,
        "Memory for the records that compaction moves, in bytes.",
        at_least(0),
        scope=_CLUSTER,
    )
    log_cleaner_io_buffer_load_factor: float = double(
        0.9, "How full the table of keys may get.", scope=_CLUSTER
    )
    log_cleaner_backoff_ms: int = long(
        15_000,
        "How long compaction pauses when nothing needs it.",
        at_least(0),
        scope=_CLUSTER,
    )
    log_cleaner_io_max_bytes_per_second: float = double(
        1.7976931348623157e308,
        "The most that compaction reads and writes in a second.",
        scope=_CLUSTER,
    )
    producer_id_expiration_ms: int = integer(
        86_400_000,
        "After how many milliseconds without a write the state of an idempotent producer is forgotten.",
        at_least(1),
        scope=_CLUSTER,
    )
    producer_id_expiration_check_interval_ms: int = integer(
        600_000, "How often, in milliseconds, producers are looked at for that.", at_least(1)
    )
    remote_log_storage_system_enable: bool = boolean(
        False,
        "Whether closed segments may be kept in remote storage. Moldau has none, and refuses to start with "
        "true.",
        must_be_false(
            "Moldau has no tiered storage: all records stay on the broker's disks, and local.retention has "
            "no effect. Remove the setting, and see that retention and disks fit"
        ),
        effective=False,
    )
    moldau_metadata_snapshot_min_bytes: int = long(
        4_194_304,
        "How long the metadata file must have grown, in bytes, before it is rewritten as one snapshot.",
        at_least(1024),
    )
