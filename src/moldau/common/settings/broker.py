"""BrokerSettings: every setting of one broker, put together from its parts."""

from collections.abc import Mapping
from typing import ClassVar

from moldau.common.settings.cluster import ClusterSettings, TransactionSettings
from moldau.common.settings.groups import GroupCoordinatorSettings
from moldau.common.settings.network import NetworkSettings
from moldau.common.settings.rows import Setting
from moldau.common.settings.security import SecuritySettings
from moldau.common.settings.share import ShareGroupSettings
from moldau.common.settings.storage import StorageSettings
from moldau.common.settings.table import table
from moldau.common.settings.without_effect import without_effect
from moldau.common.settings.zookeeper import ZooKeeperSettings


@table
class BrokerSettings(
    ClusterSettings,
    NetworkSettings,
    StorageSettings,
    GroupCoordinatorSettings,
    ShareGroupSettings,
    TransactionSettings,
    SecuritySettings,
    ZooKeeperSettings,
):
    """The settings of one broker; attribute = Kafka's name with `_` for `.`."""

    FROM_FILE: ClassVar[Mapping[str, Setting]] = without_effect("broker")

    @property
    def data_directories(self) -> tuple[str, ...]:
        """The folders that hold partitions: log.dirs, or log.dir alone."""
        return self.log_dirs or (self.log_dir,)


REMOVED_NAMES = frozenset(
    {
        "inter.broker.protocol.version",
        "control.plane.listener.name",
        "broker.id.generation.enable",
        "reserved.broker.max.id",
        "log.message.format.version",
        "log.message.downconversion.enable",
        "log.message.timestamp.difference.max.ms",
        "eligible.leader.replicas.enable",
        "group.coordinator.new.enable",
        "offsets.commit.required.acks",
    }
)
REMOVED_PREFIXES = ("password.encoder.",)
"""Settings that Kafka 4 no longer has: accepted with a warning, so that an old server.properties still
starts."""

OPEN_PREFIXES = (
    "listener.name.",
    "ssl.",
    "sasl.",
    "config.providers",
    "metrics.context.",
    "remote.log.",
    "rsm.config.",
    "rlmm.config.",
    "share.coordinator.",
    "group.share.",
    "group.streams.",
    "controller.",
    "zookeeper.",
)
"""Families of Kafka settings that Moldau has nothing to do with yet: accepted, and warned of as without
effect."""
