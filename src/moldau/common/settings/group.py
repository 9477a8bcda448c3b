"""GroupSettings: the settings of one consumer group, each with the broker settings of its default."""

from collections.abc import Mapping
from typing import ClassVar

from moldau.common.settings.checks import at_least
from moldau.common.settings.rows import Setting
from moldau.common.settings.table import SettingsObject, integer, table
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
