"""Settings of Kafka for features that Moldau does not have: threads, older metrics. Accepted
and described.
"""

from moldau.common.settings.guards import only_known
from moldau.common.settings.rows import Kind, Scope
from moldau.common.settings.table import SettingsObject, boolean, integer, listing, long, part, text

_CLUSTER = Scope.CLUSTER_WIDE


@part
class UnservedSettings(SettingsObject):
    """Rows without effect that belong to no other part."""

    add_partitions_to_txn_retry_backoff_max_ms: int = integer(
        100,
        "The longest wait before a partition is asked for again in a transaction, in milliseconds.",
        effective=False,
    )
    add_partitions_to_txn_retry_backoff_ms: int = integer(
        20,
        "The first wait before a partition is asked for again in a transaction, in milliseconds.",
        effective=False,
    )
    client_quota_callback_class: str | None = text(
        None,
        "The class that decides which quota a client has. Moldau cannot load one, and refuses to start with "
        "it.",
        only_known(consequence="Remove the setting and set quotas with kafka-configs (docs/quotas.md)"),
        kind=Kind.CLASS,
        effective=False,
    )
    config_providers: tuple[str, ...] = listing(
        (),
        "Names of the providers that fill in variables of the configuration: ${file:path:key}, "
        "${dir:path:name}, ${env:name} (KIP-297).",
        scope=_CLUSTER,
    )
    controller_quorum_auto_join_enable: bool = boolean(
        False, "Whether a new controller joins the voters by itself.", effective=False
    )
    controller_quorum_fetch_max_bytes: int = integer(
        1_048_576, "The most bytes of the metadata log that a controller fetches at once.", effective=False
    )
    controller_quorum_fetch_snapshot_max_bytes: int = integer(
        1_048_576, "The most bytes of a metadata snapshot that a controller fetches at once.", effective=False
    )
    controller_socket_timeout_ms: int = integer(
        30_000, "How long the controller waits for a broker's answer, in milliseconds.", effective=False
    )
    delete_records_purgatory_purge_interval_requests: int = integer(
        1, "After how many finished requests waiting DeleteRecords requests are tidied up.", effective=False
    )
    early_start_listeners: tuple[str, ...] | None = listing(
        None, "Listeners that open before the broker may serve all clients.", effective=False
    )
    fetch_purgatory_purge_interval_requests: int = integer(
        1000, "After how many finished requests waiting Fetch requests are tidied up.", effective=False
    )
    group_coordinator_background_threads: int = integer(
        2, "Threads that compute assignments; Moldau computes them on its event loop.", effective=False
    )
    group_coordinator_cached_buffer_max_bytes: int = integer(
        1_048_588,
        "The largest write buffer that the group coordinator keeps for reuse, in bytes.",
        scope=_CLUSTER,
        effective=False,
    )
    kafka_metrics_polling_interval_secs: int = integer(
        10, "How often the reporters of kafka.metrics.reporters are called, in seconds.", effective=False
    )
    kafka_metrics_reporters: tuple[str, ...] = listing(
        (),
        "Classes that report the broker's older metrics; Moldau reports its own over HTTP.",
        effective=False,
    )
    num_replica_alter_log_dirs_threads: int | None = integer(
        None, "Threads that move copies between log directories.", effective=False
    )
    producer_purgatory_purge_interval_requests: int = integer(
        1000, "After how many finished requests waiting Produce requests are tidied up.", effective=False
    )
    socket_connection_setup_timeout_max_ms: int = long(
        30_000,
        "The longest time that a connection to another broker may take to be made, in milliseconds.",
        effective=False,
    )
    transaction_state_log_load_buffer_size: int = integer(
        5_242_880, "How many bytes are read at once when transactions are loaded.", effective=False
    )
