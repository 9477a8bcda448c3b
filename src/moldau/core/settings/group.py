"""GroupSettings: what can be set for one consumer group, and the broker settings behind each."""

from moldau.core.settings.checks import at_least, between, one_of_any_case
from moldau.core.settings.table import SettingsObject, integer, table, text


@table
class GroupSettings(SettingsObject):
    """The settings of one group (kafka-configs --entity-type groups)."""

    consumer_session_timeout_ms: int = integer(
        45_000,
        "How long a silent member of this consumer group counts as alive, in milliseconds.",
        at_least(1),
        synonyms=("group.consumer.session.timeout.ms",),
    )
    consumer_heartbeat_interval_ms: int = integer(
        5000,
        "How often a member of this consumer group has to say that it lives, in milliseconds.",
        at_least(1),
        synonyms=("group.consumer.heartbeat.interval.ms",),
    )
    share_session_timeout_ms: int = integer(
        45_000,
        "How long a silent member of this share group counts as alive, in milliseconds.",
        at_least(1),
        synonyms=("group.share.session.timeout.ms",),
        effective=False,
    )
    share_heartbeat_interval_ms: int = integer(
        5000,
        "How often a member of this share group has to say that it lives, in milliseconds.",
        at_least(1),
        synonyms=("group.share.heartbeat.interval.ms",),
        effective=False,
    )
    share_record_lock_duration_ms: int = integer(
        30_000,
        "How long a record stays with a member of this share group, in milliseconds.",
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
