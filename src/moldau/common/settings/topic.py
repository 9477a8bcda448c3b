"""TopicSettings: the settings of one topic, and the broker settings of their defaults.

A topic's own value wins; else the first of the broker settings listed as synonyms that is set (for
retention.ms: log.retention.ms, then .minutes, then .hours); else the default.
"""

from collections.abc import Mapping
from typing import ClassVar

from moldau.common.settings.checks import at_least, between, each_of, one_of, throttled_replicas
from moldau.common.settings.rows import MAX_INT, MAX_LONG, SEGMENT_BYTES_MIN, Setting
from moldau.common.settings.table import SettingsObject, boolean, double, integer, listing, long, table, text
from moldau.common.settings.without_effect import without_effect

COMPRESSIONS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

REMOVED = frozenset(
    {"message.format.version", "message.downconversion.enable", "message.timestamp.difference.max.ms"}
)
"""Settings that Kafka 4.0 dropped: accepted, warned of, and not stored."""


@table
class TopicSettings(SettingsObject):
    """The settings of one topic."""

    FROM_FILE: ClassVar[Mapping[str, Setting]] = without_effect("topic")

    cleanup_policy: tuple[str, ...] = listing(
        ("delete",),
        "What happens to old segments: delete them by age and size, compact them by key, both, or (empty) "
        "keep all.",
        each_of("compact", "delete"),
        synonyms=("log.cleanup.policy",),
    )
    retention_ms: int = long(
        604_800_000,
        "How long a record is kept, in milliseconds, under the policy delete; -1 keeps it for ever.",
        at_least(-1),
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    retention_bytes: int = long(
        -1,
        "How large a partition may grow, in bytes, before its oldest segments go under the policy delete; "
        "-1: no limit.",
        synonyms=("log.retention.bytes",),
    )
    segment_bytes: int = integer(
        1_073_741_824,
        "The size of a segment file, in bytes; retention and compaction work on whole segments.",
        at_least(SEGMENT_BYTES_MIN),
        synonyms=("log.segment.bytes",),
    )
    segment_ms: int = long(
        604_800_000,
        "The age, in milliseconds, at which a segment is closed even when it is not full.",
        at_least(1),
        synonyms=("log.roll.ms", "log.roll.hours"),
    )
    segment_jitter_ms: int = long(
        0,
        "The most that is subtracted at random from segment.ms, so that partitions do not all roll at once.",
        at_least(0),
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    segment_index_bytes: int = integer(
        10_485_760,
        "The size, in bytes, to which a segment's index may grow before the segment is closed.",
        at_least(4),
        synonyms=("log.index.size.max.bytes",),
    )
    index_interval_bytes: int = integer(
        4096,
        "How many bytes of records lie between two entries of the sparse offset index.",
        at_least(0),
        synonyms=("log.index.interval.bytes",),
    )
    min_insync_replicas: int = integer(
        1,
        "How many replicas must be in sync before a write with acks=all is accepted.",
        at_least(1),
        synonyms=("min.insync.replicas",),
    )
    max_message_bytes: int = integer(
        1_048_588,
        "The largest batch of records that is accepted, in bytes, after compression.",
        at_least(0),
        synonyms=("message.max.bytes",),
    )
    compression_type: str = text(
        "producer",
        "The codec that batches are stored with; producer keeps what the producer chose, uncompressed "
        "means none.",
        one_of(*COMPRESSIONS),
        synonyms=("compression.type",),
    )
    compression_gzip_level: int = integer(
        -1,
        "The level used when the broker compresses with gzip: 1 to 9, or -1 for the library's default.",
        (
            lambda value: (
                None if value == -1 or 1 <= value <= 9 else "Value must be between 1 and 9 or equal to -1"
            ),
            "[1,...,9] or -1",
        ),
        synonyms=("compression.gzip.level",),
    )
    compression_lz4_level: int = integer(
        9,
        "The level used when the broker compresses with lz4.",
        between(1, 17),
        synonyms=("compression.lz4.level",),
    )
    compression_zstd_level: int = integer(
        3,
        "The level used when the broker compresses with zstd.",
        between(-131_072, 22),
        synonyms=("compression.zstd.level",),
    )
    message_timestamp_type: str = text(
        "CreateTime",
        "Whether a record carries the time its producer gave it or the time at which the broker appended it.",
        one_of("CreateTime", "LogAppendTime"),
        synonyms=("log.message.timestamp.type",),
    )
    message_timestamp_before_max_ms: int = long(
        MAX_LONG,
        "How far, in milliseconds, a record's timestamp may lie in the past; older ones are refused.",
        at_least(0),
        synonyms=("log.message.timestamp.before.max.ms",),
    )
    message_timestamp_after_max_ms: int = long(
        3_600_000,
        "How far, in milliseconds, a record's timestamp may lie in the future; later ones are refused.",
        at_least(0),
        synonyms=("log.message.timestamp.after.max.ms",),
    )
    delete_retention_ms: int = long(
        86_400_000,
        "How long a tombstone or transaction marker outlives compaction, in milliseconds.",
        at_least(0),
        synonyms=("log.cleaner.delete.retention.ms",),
    )
    min_compaction_lag_ms: int = long(
        0,
        "How long a record stays exempt from compaction, in milliseconds.",
        at_least(0),
        synonyms=("log.cleaner.min.compaction.lag.ms",),
    )
    max_compaction_lag_ms: int = long(
        MAX_LONG,
        "How long a record may wait, in milliseconds, before compaction has to consider it.",
        at_least(1),
        synonyms=("log.cleaner.max.compaction.lag.ms",),
    )
    min_cleanable_dirty_ratio: float = double(
        0.5,
        "The share of a log that must be uncompacted before compaction takes it up.",
        between(0, 1),
        synonyms=("log.cleaner.min.cleanable.ratio",),
    )
    file_delete_delay_ms: int = long(
        60_000,
        "How long a removed segment stays on disk, in milliseconds, so that reads in flight can end.",
        at_least(0),
        synonyms=("log.segment.delete.delay.ms",),
    )
    flush_messages: int = long(
        MAX_LONG,
        "After how many records the log is forced to disk; by default that is left to the operating system.",
        at_least(1),
        synonyms=("log.flush.interval.messages",),
    )
    flush_ms: int = long(
        MAX_LONG,
        "After how many milliseconds the log is forced to disk; by default that is left to the operating "
        "system.",
        at_least(0),
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    unclean_leader_election_enable: bool = boolean(
        False,
        "Whether a replica that is not in sync may become leader when no other lives, at the price of lost "
        "records.",
        synonyms=("unclean.leader.election.enable",),
    )
    leader_replication_throttled_replicas: tuple[str, ...] = listing(
        (),
        "The replicas whose outgoing replication is throttled: partition:broker pairs, or * for all.",
        throttled_replicas(),
    )
    follower_replication_throttled_replicas: tuple[str, ...] = listing(
        (),
        "The replicas whose incoming replication is throttled: partition:broker pairs, or * for all.",
        throttled_replicas(),
    )
    moldau_records_check: bool = boolean(
        True,
        "Whether a leader looks at all records of the batches that producers send, as Kafka does: whether "
        "they can be decompressed and read, and are as many as the batch says. Without it, batches are "
        "stored that no consumer can read. Switch it off only where all producers are trusted.",
        synonyms=("moldau.records.check",),
    )
    internal_segment_bytes: int | None = integer(
        None,
        "Overrides segment.bytes without its lower limit; meant for tests that need many small segments.",
        between(1, MAX_INT),
    )

    @property
    def compacts(self) -> bool:
        """Whether cleanup.policy has compact."""
        return "compact" in self.cleanup_policy

    @property
    def segment_age_max_ms(self) -> int:
        """The age at which a segment is rolled at the latest; only a closed one can be compacted in
        time (KIP-354).
        """
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @property
    def deletes(self) -> bool:
        """Whether cleanup.policy has delete."""
        return "delete" in self.cleanup_policy
