"""The settings that a share group's partitions are served by, within the broker's present bounds."""

from typing import NamedTuple

from moldau.broker.metadata.configs import group_settings
from moldau.broker.metadata.image import Configs, Image
from moldau.broker.share.share_partition import Limits
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.group import GroupSettings

GROUPS_MAX = 10_000
"""Groups cached at a time; clients choose the names, so their number is bounded."""


class Terms(NamedTuple):
    """One group's. `committed`: records of transactions once they are committed; `reset`: where a partition
    begins that the group has not read yet."""

    limits: Limits
    committed: bool
    reset: str
    may_renew: bool


class TermsCache:
    """Terms by group id. Settings are immutable objects, so identity says whether anything changed."""

    def __init__(self) -> None:
        self._broker: BrokerSettings | None = None
        self._configs: Configs | None = None
        self._by_group: dict[str, Terms] = {}

    def of(self, group_id: str, broker: BrokerSettings, image: Image) -> Terms:
        """The terms of a group under these settings."""
        if broker is not self._broker or image.configs is not self._configs:
            self._broker, self._configs = broker, image.configs
            self._by_group.clear()
        terms = self._by_group.get(group_id)
        if terms is None:
            if len(self._by_group) >= GROUPS_MAX:
                self._by_group.clear()
            terms = self._by_group[group_id] = _terms(group_settings(image, broker, group_id), broker)
        return terms


def _terms(group: GroupSettings, broker: BrokerSettings) -> Terms:
    limits = Limits(
        lock_ms=_bounded(
            group.share_record_lock_duration_ms,
            broker.group_share_min_record_lock_duration_ms,
            broker.group_share_max_record_lock_duration_ms,
        ),
        deliveries_max=_bounded(
            group.share_delivery_count_limit,
            broker.group_share_min_delivery_count_limit,
            broker.group_share_max_delivery_count_limit,
        ),
        locks_max=_bounded(
            group.share_partition_max_record_locks,
            broker.group_share_min_partition_max_record_locks,
            broker.group_share_max_partition_max_record_locks,
        ),
    )
    return Terms(
        limits,
        group.share_isolation_level.lower() == "read_committed",
        group.share_auto_offset_reset,
        group.share_renew_acknowledge_enable,
    )


def _bounded(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))
