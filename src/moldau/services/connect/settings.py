"""What a worker is told, by the names and defaults of Kafka's connect-distributed.properties.

    group.id, config.storage.topic, …      rows of the table below
    producer.NAME, consumer.NAME, admin.NAME   NAME, for the clients of tasks
    security.protocol, ssl.*, sasl.*       every Kafka client; ssl.* also the HTTPS listeners of the worker …
    listeners.https.ssl.NAME               … unless they have settings of their own
    config.storage.NAME, …                 a topic's that is created: config.storage.max.message.bytes

A worker is distributed if it has a `group.id`, else standalone. Not here: a connector's settings
(validation/).
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from moldau.common.settings.checks import at_least, one_of_any_case
from moldau.common.settings.rows import SettingError
from moldau.common.settings.table import boolean, integer, listing, long, parse_all, short, table, text
from moldau.services.http.settings import HttpSettingsPart

DEFAULT_PORT = 8083
POLICIES = ("All", "None", "Principal", "Allowlist")
_FAMILIES = (
    "producer.",
    "consumer.",
    "admin.",
    "security.",
    "ssl.",
    "sasl.",
    "listeners.https.",
    "admin.listeners.https.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
    "config.providers",
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "schema.registry.",
    "moldau.",
)
_CLIENTS = frozenset(
    (
        "client.id",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.ms",
        "retry.backoff.max.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    )
)
_SHARED = ("security.", "ssl.", "sasl.")
_NO_EFFECT = "Accepted for compatibility; it has no effect in this version of Moldau:"


@table
class WorkerSettings(HttpSettingsPart):
    """The settings of a worker and of its REST interface."""

    bootstrap_servers: str = text("localhost:9092", "The brokers: HOST:PORT, several with commas.")
    group_id: str = text(
        "", "Which workers belong together; they share connectors. Without one the worker is standalone."
    )
    key_converter: str = text("", "How records' keys become bytes, where a connector does not say so.")
    value_converter: str = text("", "How records' values become bytes, where a connector does not say so.")
    header_converter: str = text(
        "org.apache.kafka.connect.storage.SimpleHeaderConverter", "The same for records' headers."
    )
    config_storage_topic: str = text("", "The compacted topic of one partition with the connectors.")
    config_storage_replication_factor: int = short(
        3, "The replicas of that topic, if it has to be created; -1: the brokers' default.", at_least(-1)
    )
    offset_storage_topic: str = text("", "The compacted topic with the offsets of source connectors.")
    offset_storage_replication_factor: int = short(3, "Its replicas, if it has to be created.", at_least(-1))
    offset_storage_partitions: int = integer(
        25, "Its partitions, if it has to be created; -1: the brokers' default.", at_least(-1)
    )
    offset_storage_file_filename: str = text(
        "", "The file with the offsets of source connectors, of a standalone worker."
    )
    status_storage_topic: str = text("", "The compacted topic with the states of connectors and tasks.")
    status_storage_replication_factor: int = short(3, "Its replicas, if it has to be created.", at_least(-1))
    status_storage_partitions: int = integer(
        5, "Its partitions, if it has to be created; -1: the brokers' default.", at_least(-1)
    )
    session_timeout_ms: int = integer(
        10_000, "A worker that sends no heartbeat for so long is taken for dead, in ms.", at_least(1)
    )
    heartbeat_interval_ms: int = integer(3_000, "The time between heartbeats, in ms.", at_least(1))
    rebalance_timeout_ms: int = integer(
        60_000, "How long workers may take to join when work is distributed anew, in ms.", at_least(1)
    )
    scheduled_rebalance_max_delay_ms: int = integer(
        300_000,
        f"{_NO_EFFECT} the tasks of a worker that is gone move at once after its session, and a worker that "
        "comes back takes its own.",
        at_least(0),
        effective=False,
    )
    worker_sync_timeout_ms: int = integer(
        3_000, "How long to wait for the other workers' configuration to be read, in ms.", at_least(0)
    )
    worker_unsync_backoff_ms: int = integer(
        300_000,
        f"{_NO_EFFECT} a worker that cannot read the configuration stays.",
        at_least(0),
        effective=False,
    )
    connect_protocol: str = text(
        "sessioned",
        "How workers share connectors: sessioned, compatible or eager, as Kafka's.",
        one_of_any_case("sessioned", "compatible", "eager"),
    )
    exactly_once_source_support: str = text(
        "enabled",
        "Whether records and offsets of source connectors are committed in one transaction: disabled, "
        "preparing, enabled. Kafka's default is disabled.",
        one_of_any_case("disabled", "preparing", "enabled"),
    )
    inter_worker_key_generation_algorithm: str = text("HmacSHA256", "The kind of key that workers sign with.")
    inter_worker_key_size: int | None = integer(
        None, "The size of that key in bits; 256 if unset.", at_least(128)
    )
    inter_worker_key_ttl_ms: int = integer(
        3_600_000, "A key is replaced after so long, in ms; 0: never.", at_least(0)
    )
    inter_worker_signature_algorithm: str = text("HmacSHA256", "How requests between workers are signed.")
    inter_worker_verification_algorithms: tuple[str, ...] = listing(
        ("HmacSHA256",), "Which signatures are accepted."
    )
    rest_advertised_host_name: str = text("", "The host name by which other workers reach this one.")
    rest_advertised_port: int = integer(0, "The port for that; 0: the listener's.", at_least(0))
    rest_advertised_listener: str = text("", "http or https: by which listener.")
    rest_extension_classes: tuple[str, ...] = listing(
        (), f"{_NO_EFFECT} extensions are Java classes.", effective=False
    )
    admin_listeners: tuple[str, ...] | None = listing(
        None,
        "Where the paths below /admin are served; unset: with all others; empty: nowhere.",
    )
    response_http_headers_config: str = text(
        "", "Headers of all responses: `set X-Frame-Options: DENY, add Cache-Control: no-cache`."
    )
    plugin_path: tuple[str, ...] = listing(
        (), f"{_NO_EFFECT} plugins are packages of Python that are installed.", effective=False
    )
    plugin_discovery: str = text("hybrid_warn", f"{_NO_EFFECT} see plugin.path.", effective=False)
    connector_client_config_override_policy: str = text(
        "All", "Which producer.override.*, consumer.override.* and admin.override.* connectors may have."
    )
    connector_client_config_override_allowlist: tuple[str, ...] = listing(
        (), "The names that the policy Allowlist lets connectors override."
    )
    topic_creation_enable: bool = boolean(
        True, "Whether source connectors with topic.creation.* may create topics."
    )
    topic_tracking_enable: bool = boolean(True, "Whether the topics that a connector uses are noted.")
    topic_tracking_allow_reset: bool = boolean(True, "Whether that note may be erased.")
    task_shutdown_graceful_timeout_ms: int = long(
        5_000, "How long tasks may take to end, all together, in ms.", at_least(0)
    )
    offset_flush_interval_ms: int = long(
        60_000, "How often the offsets of tasks are committed, in ms.", at_least(1)
    )
    offset_flush_timeout_ms: int = long(5_000, "How long that may take, in ms.", at_least(1))
    metrics_num_samples: int = integer(2, f"{_NO_EFFECT} see /metrics.", effective=False)
    metrics_sample_window_ms: int = long(30_000, f"{_NO_EFFECT} see /metrics.", effective=False)
    metrics_recording_level: str = text("INFO", f"{_NO_EFFECT} see /metrics.", effective=False)
    metric_reporters: tuple[str, ...] = listing((), f"{_NO_EFFECT} see /metrics.", effective=False)
    auto_include_jmx_reporter: bool = boolean(True, f"{_NO_EFFECT} see /metrics.", effective=False)


class WorkerConfiguration:
    """The settings, and the texts they were read from."""

    def __init__(self, settings: WorkerSettings, texts: Mapping[str, str], warnings: list[str]) -> None:
        self.settings = settings
        self.texts = dict(texts)
        self.warnings = warnings

    @property
    def is_distributed(self) -> bool:
        """Whether the worker belongs to a group."""
        return bool(self.settings.group_id)

    def client(self, kind: str = "") -> dict[str, str]:
        """The settings of a Kafka client, under Kafka's names; `kind`: producer, consumer, admin or none."""
        found = {n: v for n, v in self.texts.items() if n.startswith(_SHARED) or n in _CLIENTS}
        if kind:
            start = f"{kind}."
            found |= {n.removeprefix(start): v for n, v in self.texts.items() if n.startswith(start)}
        found["bootstrap.servers"] = self.settings.bootstrap_servers
        return found

    def topic_settings(self, store: str) -> dict[str, str]:
        """The settings that a topic is created with; `store`: config, offset or status."""
        start = f"{store}.storage."
        own = ("topic", "replication.factor", "partitions", "file.filename")
        found = {n.removeprefix(start): v for n, v in self.texts.items() if n.startswith(start)}
        return {n: v for n, v in found.items() if n not in own} | {"cleanup.policy": "compact"}


_DISTRIBUTED = (
    "key.converter",
    "value.converter",
    "config.storage.topic",
    "offset.storage.topic",
    "status.storage.topic",
)
_STANDALONE = ("key.converter", "value.converter", "offset.storage.file.filename")


def worker_configuration(texts: Mapping[str, str]) -> WorkerConfiguration:
    """A worker's settings from texts by name. SettingError names the first that is wrong or missing."""
    texts = {name: value.strip() for name, value in texts.items()}
    warnings = []
    for name in texts:
        row = WorkerSettings.ROWS.get(name)
        if row is not None:
            if not row.effective:
                warnings.append(
                    f"the setting {name} has no effect: {row.documentation.removeprefix(_NO_EFFECT).strip()}"
                )
        elif name not in _CLIENTS and not name.startswith(_FAMILIES):
            near = get_close_matches(name, WorkerSettings.ROWS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            warnings.append(f"the setting {name} is not known and has no effect{hint}")
    settings = parse_all(
        WorkerSettings, [(n, v) for n, v in _for_http(texts).items() if n in WorkerSettings.ROWS]
    )
    for name in _DISTRIBUTED if settings.group_id else _STANDALONE:
        if not settings.get(name):
            raise SettingError(name, f'Missing required configuration "{name}" which has no default value.')
    _check(settings)
    return WorkerConfiguration(settings, texts, warnings)


def _for_http(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts with the TLS settings of HTTPS listeners in their place, and `ssl.client.auth` as a word."""
    start = "listeners.https."
    found = dict(texts)
    found |= {n.removeprefix(start): v for n, v in texts.items() if n.startswith(start)}
    wanted = found.pop("ssl.client.auth", None)
    if wanted is not None:
        found["ssl.client.authentication"] = "NONE" if wanted.lower() == "none" else wanted
    return found


def _check(settings: WorkerSettings) -> None:
    policy = settings.connector_client_config_override_policy
    if policy.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy") not in POLICIES:
        name = "connector.client.config.override.policy"
        raise SettingError(name, f"{name}={policy} is not known: write one of {', '.join(POLICIES)}")
    if settings.session_timeout_ms <= settings.heartbeat_interval_ms:
        raise SettingError(
            "heartbeat.interval.ms",
            f"heartbeat.interval.ms={settings.heartbeat_interval_ms} must be less than "
            f"session.timeout.ms={settings.session_timeout_ms}: a third of it is usual",
        )
    for name in ("inter.worker.key.generation.algorithm", "inter.worker.signature.algorithm"):
        _check_algorithm(name, settings.get(name))
    for each in settings.inter_worker_verification_algorithms:
        _check_algorithm("inter.worker.verification.algorithms", each)
    if settings.inter_worker_signature_algorithm not in settings.inter_worker_verification_algorithms:
        raise SettingError(
            "inter.worker.signature.algorithm",
            "inter.worker.signature.algorithm must be one of inter.worker.verification.algorithms",
        )


ALGORITHMS = {
    "HmacSHA1": "sha1",
    "HmacSHA224": "sha224",
    "HmacSHA256": "sha256",
    "HmacSHA384": "sha384",
    "HmacSHA512": "sha512",
}


def _check_algorithm(name: str, value: str) -> None:
    if value not in ALGORITHMS:
        raise SettingError(name, f"{name}={value} is not known: write one of {', '.join(ALGORITHMS)}")
