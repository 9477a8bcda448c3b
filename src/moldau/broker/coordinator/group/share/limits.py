"""The settings that a share group runs by, found once for each group and change of settings."""

from moldau.broker.coordinator.group.share.heartbeat import ShareLimits
from moldau.broker.metadata.configs import group_settings
from moldau.broker.metadata.image import Configs, Image
from moldau.common.settings.broker import BrokerSettings

GROUPS_MAX = 10_000
"""Groups cached at a time; clients choose the names, so their number is bounded."""


class ShareLimitsCache:
    """Limits by group id. Settings are immutable objects, so identity says whether anything changed."""

    __slots__ = ("_broker", "_by_group", "_configs")

    def __init__(self) -> None:
        self._broker: BrokerSettings | None = None
        self._configs: Configs | None = None
        self._by_group: dict[str, ShareLimits] = {}

    def of(self, group_id: str, broker: BrokerSettings, image: Image) -> ShareLimits:
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


def _limits(group_id: str, broker: BrokerSettings, image: Image) -> ShareLimits:
    """A group's settings within the broker's present bounds, which may have changed since."""
    group = group_settings(image, broker, group_id)
    return ShareLimits(
        session_timeout_ms=_bounded(
            group.share_session_timeout_ms,
            broker.group_share_min_session_timeout_ms,
            broker.group_share_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=_bounded(
            group.share_heartbeat_interval_ms,
            broker.group_share_min_heartbeat_interval_ms,
            broker.group_share_max_heartbeat_interval_ms,
        ),
        size_max=broker.group_share_max_size,
        assignment_interval_ms=_bounded(
            group.share_assignment_interval_ms,
            broker.group_share_min_assignment_interval_ms,
            broker.group_share_max_assignment_interval_ms,
        ),
    )


def _bounded(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))
