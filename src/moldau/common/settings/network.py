"""The broker's settings about sockets, threads, request limits and its own HTTP port."""

from moldau.common.settings.checks import address_counts, address_or_off, at_least, one_of
from moldau.common.settings.guards import only_known
from moldau.common.settings.rows import MAX_INT, Kind, Scope
from moldau.common.settings.table import SettingsObject, double, integer, listing, long, part, text

_CLUSTER = Scope.CLUSTER_WIDE


@part
class NetworkSettings(SettingsObject):
    """Listeners, connections and requests."""

    listeners: tuple[str, ...] = listing(
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where the broker listens: name://host:port, several separated by commas. An empty host means every "
        "interface; port 0 takes any free one. Moldau's default is the loopback interface, Kafka's is all.",
    )
    advertised_listeners: tuple[str, ...] | None = listing(
        None,
        "The addresses that clients are told to use; unset, they are those of listeners. A client that "
        "bootstraps and then hangs was almost always told an address that it cannot reach.",
    )
    listener_security_protocol_map: tuple[str, ...] = listing(
        ("PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"),
        "Which security protocol each named listener speaks: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    )
    inter_broker_listener_name: str | None = text(
        None,
        "The listener for connections between brokers; by default the one that is named after "
        "security.inter.broker.protocol, or else the first of each broker.",
    )
    security_inter_broker_protocol: str = text(
        "PLAINTEXT",
        "The security protocol among brokers, and the name of the listener that has it; instead of "
        "inter.broker.listener.name.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    controller_listener_names: tuple[str, ...] | None = listing(
        None, "Listeners of a KRaft controller; Moldau has none, so these are left out of listeners."
    )
    queued_max_request_bytes: int = long(
        268_435_456,
        "The most bytes of requests that are received, wait or are handled at once, over all connections; "
        "0 or less: no limit. Requests of up to 64 KiB are not counted. When it is reached, further large "
        "requests are read one after the other, and a client that holds memory and sends next to nothing for "
        "two seconds is disconnected. Moldau's default protects it out of the box; Kafka's is -1.",
    )
    moldau_queued_max_response_bytes: int = long(
        268_435_456,
        "The most bytes of answers that clients have not taken yet, over all connections; 0 or less: no "
        "limit. Up to 64 KiB a connection are not counted. As it fills, answers to Fetch get smaller; above "
        "half of it, clients that take next to nothing for ten seconds are disconnected; at the limit the "
        "slowest are at once.",
    )
    moldau_client_state_max_bytes: int = long(
        268_435_456,
        "The most bytes that clients may make the broker keep between their requests: frames of connections "
        "that have not logged in, fetch sessions, members' metadata and assignments of groups; 0 or less: no "
        "limit. When it is reached, the least valuable goes first: connections with an unfinished login are "
        "closed (a quarter at most is theirs), then fetch sessions of the principal that holds most; then "
        "joins of groups are refused with COORDINATOR_NOT_AVAILABLE, which clients try again.",
    )
    socket_request_max_bytes: int = integer(
        104_857_600,
        "The largest request that is read, in bytes; a longer one closes its connection.",
        at_least(1),
    )
    moldau_request_elements_max: int = integer(
        500_000,
        "The most rows (array elements at all depths: topics, partitions, names, ids) that one request may "
        "have; one with more closes its connection. Rows of a few bytes take a hundred times as much memory "
        "as on the wire, which socket.request.max.bytes alone does not bound.",
        at_least(1000),
        scope=_CLUSTER,
    )
    socket_listen_backlog_size: int = integer(
        50, "How many connections may wait to be accepted; 1,024 at least.", at_least(1)
    )
    max_connections: int = integer(
        MAX_INT,
        "The most connections that the broker holds at once, or with a listener's prefix that listener; "
        "further ones wait to be accepted.",
        at_least(0),
        scope=_CLUSTER,
    )
    max_connections_per_ip: int = integer(
        MAX_INT, "The most connections that the broker holds from one address.", at_least(0), scope=_CLUSTER
    )
    max_connections_per_ip_overrides: str = text(
        "",
        "Exceptions from max.connections.per.ip: address:count pairs, separated by commas.",
        address_counts(),
        scope=_CLUSTER,
    )
    max_connection_creation_rate: int = integer(
        MAX_INT,
        "The most connections that are accepted in a second, by the broker or with a listener's prefix by "
        "that listener.",
        at_least(0),
        scope=_CLUSTER,
    )
    connections_max_idle_ms: int = long(
        600_000, "After how many idle milliseconds a connection is closed; negative: never."
    )
    connection_failed_authentication_delay_ms: int = integer(
        100,
        "How long the close of a connection that failed to authenticate is put off.",
        at_least(0),
    )
    socket_connection_setup_timeout_ms: int = long(
        10_000, "How long a connection to another broker may take to be made, in milliseconds.", at_least(1)
    )
    fetch_max_bytes: int = integer(
        57_671_680,
        "The most bytes that one Fetch request may ask for. Moldau gives at most 8 MiB in one answer (and "
        "the first batch always whole), so that reading it delays nobody.",
        at_least(1024),
    )
    max_incremental_fetch_session_cache_slots: int = integer(
        1000, "The most fetch sessions (KIP-227) that the broker keeps.", at_least(0)
    )
    max_request_partition_size_limit: int = integer(
        2000, "The most partitions in one response of DescribeTopicPartitions.", at_least(1)
    )
    client_quota_callback_class: str | None = text(
        None,
        "The class that decides which quota a client has. Moldau cannot load one, and refuses to start with "
        "it.",
        only_known(consequence="Remove the setting and set quotas with kafka-configs (docs/quotas.md)"),
        kind=Kind.CLASS,
        effective=False,
    )
    quota_window_num: int = integer(11, "How many samples a quota of clients is measured over.", at_least(1))
    quota_window_size_seconds: int = integer(
        1, "How many seconds each sample of a quota of clients covers.", at_least(1)
    )
    controller_quota_window_num: int = integer(
        11, "How many samples the quota of metadata changes is measured over.", at_least(1)
    )
    controller_quota_window_size_seconds: int = integer(
        1, "How many seconds each sample of the quota of metadata changes covers.", at_least(1)
    )
    moldau_http_listener: str = text(
        "127.0.0.1:9640",
        "Where health and metrics are served over HTTP: host:port; port 0 takes any free one, empty or off "
        "switches it off.",
        address_or_off(),
    )
    moldau_http_security_protocol: str = text(
        "PLAINTEXT",
        "Whether the HTTP port speaks TLS: PLAINTEXT or SSL. Its stores are those of all listeners, or its "
        "own (listener.name.http.ssl.keystore.location and so on).",
        one_of("PLAINTEXT", "SSL"),
    )
    moldau_http_users: str | None = text(
        None,
        "Who may read the HTTP port's pages: name:password pairs, separated by commas. Unset, and without a "
        "token: everybody. The page /health/live is open to all.",
        kind=Kind.PASSWORD,
    )
    moldau_http_token: str | None = text(
        None,
        "A token with which the HTTP port's pages may be read (Authorization: Bearer), as Prometheus and "
        "load balancers send it.",
        kind=Kind.PASSWORD,
    )
    moldau_health_disk_min_free_ratio: float = double(
        0.05, "The share of a disk that must be free; below it the health verdict is degraded."
    )
    moldau_health_transaction_max_age_ms: int = long(
        300_000,
        "How long a transaction may hold back read_committed consumers until the health verdict is degraded.",
        at_least(1),
    )
    moldau_health_round_trip_interval_ms: int = long(
        0,
        "How often this broker writes a record to the topic __moldau_health through its own listener and "
        "reads it back, for the health verdict; 0 is never.",
        at_least(0),
    )
