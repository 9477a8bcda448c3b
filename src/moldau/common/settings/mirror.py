"""MirrorSettings: what a link to another cluster mirrors, and how; beside them a link has a client's settings
of security (`security.protocol`, `sasl.*`, `ssl.*`).
"""

from moldau.common.settings.checks import at_least, filled
from moldau.common.settings.table import SettingsObject, boolean, integer, listing, table, text


@table
class MirrorSettings(SettingsObject):
    """The settings of one link."""

    bootstrap_servers: tuple[str, ...] = listing(
        (), "Brokers of the other cluster, host:port each; the others are learned from them.", filled()
    )
    topics: tuple[str, ...] = listing(
        (), "Which topics are mirrored: names, or regular expressions that match whole names."
    )
    topics_exclude: tuple[str, ...] = listing(
        (".*[\\-.]internal", ".*\\.replica", "__.*"),
        "Which of them are not: names, or regular expressions.",
    )
    topic_prefix: str = text("", "What stands before a topic's name here.")
    replication_factor: int = integer(
        -1,
        "How many replicas topics get that are created here; -1: default.replication.factor.",
        at_least(-1),
    )
    refresh_topics_interval_seconds: int = integer(
        10, "How often the other cluster is asked for new topics and partitions.", at_least(1)
    )
    sync_topic_configs_enabled: bool = boolean(True, "Whether topics' settings follow the source's.")
    config_properties_exclude: tuple[str, ...] = listing(
        (
            "follower\\.replication\\.throttled\\.replicas",
            "leader\\.replication\\.throttled\\.replicas",
            "message\\.timestamp\\.difference\\.max\\.ms",
            "unclean\\.leader\\.election\\.enable",
            "min\\.insync\\.replicas",
        ),
        "Which settings of topics do not follow: names, or regular expressions.",
    )
    sync_topic_acls_enabled: bool = boolean(
        True,
        "Whether rights on the topics follow, where an authorizer is set: never Write, and All becomes Read.",
    )
    sync_group_offsets_enabled: bool = boolean(
        True, "Whether committed offsets of groups follow, for groups without members here."
    )
    sync_group_offsets_interval_seconds: int = integer(5, "How often they do.", at_least(1))
    groups: tuple[str, ...] = listing((".*",), "Which groups: names, or regular expressions.")
    groups_exclude: tuple[str, ...] = listing(
        ("console-consumer-.*", "connect-.*", "__.*"), "Which of them not: names, or regular expressions."
    )
