"""The settings that a consumer group runs by, found once for each group and change of settings.

A heartbeat is the most frequent request of a group, and working out a group's effective settings takes longer
than everything else in it. Both sources are immutable objects, so identity says whether anything changed.
"""

from dataclasses import dataclass

from moldau.broker.metadata.configs import group_settings
from moldau.broker.metadata.image import Configs, Image
from moldau.common.settings.broker import BrokerSettings

GROUPS_MAX = 10_000
"""Groups cached at a time; clients choose the names, so their number is bounded."""


@dataclass(frozen=True, slots=True)
class ConsumerLimits:
    """One group's settings; `assignors` has the default first."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    size_max: int
    assignors: tuple[str, ...]
    regex_refresh_interval_ms: int
    assignment_interval_ms: int


class LimitsCache:
    """Limits by group id."""

    __slots__ = ("_broker", "_by_group", "_configs")

    def __init__(self) -> None:
        self._broker: BrokerSettings | None = None
        self._configs: Configs | None = None
        self._by_group: dict[str, ConsumerLimits] = {}

    def of(self, group_id: str, broker: BrokerSettings, image: Image) -> ConsumerLimits:
        """The limits of a group under these settings."""
        if broker is not self._broker or image.configs is not self._configs:
            self._broker, self._configs = broker, image.configs
            self._by_group.clear()
        limits = self._by_group.get(group_id)
        if limits is None:
            if len(self._by_group) >= GROUPS_MAX:
                self._by_group.clear()
            limits = self._by_group[group_id] = _limits(group_id, broker, image)
        return limits


def _limits(group_id: str, broker: BrokerSettings, image: Image) -> ConsumerLimits:
    group = group_settings(image, broker, group_id)
    return ConsumerLimits(
        session_timeout_ms=group.consumer_session_timeout_ms,
        heartbeat_interval_ms=group.consumer_heartbeat_interval_ms,
        size_max=broker.group_consumer_max_size,
        assignors=broker.group_consumer_assignors,
        regex_refresh_interval_ms=broker.group_consumer_regex_refresh_interval_ms,
        assignment_interval_ms=group.consumer_assignment_interval_ms,
    )
