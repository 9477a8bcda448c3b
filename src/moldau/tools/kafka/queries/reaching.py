"""From a command line to its cluster: --bootstrap-server, --broker-list or --zookeeper, and --command-config.

The first contact is limited to 5 s in all (Kafka's tools try for a minute; MOLDAU_CONTACT_SECONDS is another
limit): one of the addresses must accept a connection and answer ApiVersions. Everything after that has the
client's usual limits.

--zookeeper HOST:PORT/CHROOT is what articles of before 2021 type. The brokers are then those that are
registered in /brokers/ids; where no ZooKeeper answers, the error has the line to type instead.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from moldau.client.cluster import Cluster, parse_servers
from moldau.client.connection import Connection
from moldau.client.options import ClientOptions, parse_options
from moldau.tools.kafka.java.properties import parse_pairs, read_properties
from moldau.tools.kafka.lines.options import Given, Option
from moldau.tools.kafka.problems import ToolError

CONTACT_SECONDS = float(os.environ.get("MOLDAU_CONTACT_SECONDS", "4"))
DEFAULT_SERVER = "localhost:9092"
OUR_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""Those by which a first contact tells at once why a login fails; of others librdkafka tells."""

BOOTSTRAP = Option(
    "bootstrap-server",
    "server to connect to",
    "A broker, as HOST:PORT; several, with commas, are tried in turn.",
)
BROKER_LIST = Option("broker-list", "HOST1:PORT1,HOST2:PORT2", "The old name of --bootstrap-server.")
ZOOKEEPER = Option(
    "zookeeper",
    "hosts",
    "The old way to name a cluster, HOST:PORT/CHROOT: its brokers are looked up in ZooKeeper.",
    aliases=("z",),
)
COMMAND_CONFIG = Option("command-config", "config property file", "A file of client settings (TLS, SASL).")
CONFIG_FILES = ("command-config", "consumer.config", "producer.config", "admin.config")
CONFIG_WORDS = (
    "command-property",
    "consumer-property",
    "producer-property",
    "consumer-props",
    "producer-props",
)


def servers(given: Given) -> str:
    """Return the bootstrap servers of a command line; the old options are looked at last."""
    for name in ("bootstrap-server", "broker-list"):
        if name in given.parser.by_name and (text := given.text(name)):
            return text
    if "zookeeper" in given.parser.by_name and (text := given.text("zookeeper")):
        from moldau.tools.kafka.queries.zookeeper_lookup import brokers_of

        return ",".join(brokers_of(text, given))
    given.parser.require(given, "bootstrap-server")
    raise ToolError(f"--bootstrap-server has no address: --bootstrap-server {DEFAULT_SERVER}, say")


def client_settings(given: Given) -> dict[str, str]:
    """Return the client settings of the files and words of a command line; words go first."""
    if given.settings:
        return dict(given.settings)
    found: dict[str, str] = {}
    for name in CONFIG_FILES:
        if name in given.parser.by_name and (path := given.text(name)):
            found |= read_properties(path)
    for name in CONFIG_WORDS:
        if name in given.parser.by_name:
            found |= parse_pairs(given.texts(name), name)
    given.settings.update(found)
    return found


def cluster(given: Given) -> Cluster:
    """Return the cluster of a command line, after a first contact. ToolError if no broker answers."""
    return reach(servers(given), client_settings(given))


def reach(bootstrap: str, settings: Mapping[str, str]) -> Cluster:
    """Return a cluster whose first contact has succeeded. ToolError if no broker answers within 5 s."""
    settings = _with_login(settings)
    options = parse_options(
        {"default.api.timeout.ms": "15000", "client.id": "moldau-tool", **settings}, settings
    )
    require_broker(bootstrap, options)
    return Cluster(bootstrap, options)


def _with_login(settings: Mapping[str, str]) -> Mapping[str, str]:
    """The settings, with the login of the JAAS file that KAFKA_OPTS names, if they need one. ToolError."""
    if "KAFKA_OPTS" not in os.environ:
        return settings
    from moldau.common.credentials.errors import CredentialsError
    from moldau.common.credentials.login_file import with_client_login

    try:
        return with_client_login(settings, os.environ)
    except CredentialsError as problem:
        raise ToolError(str(problem)) from None


def require_broker(bootstrap: str, options: ClientOptions) -> None:
    """Return once a broker has answered. In a thread of its own, since a name look-up has no time limit."""
    addresses = parse_servers(bootstrap)
    seconds = CONTACT_SECONDS / len(addresses)
    hasty = replace(options, connect_timeout_seconds=seconds, request_timeout_seconds=CONTACT_SECONDS)
    outcome: list[str] = []

    def contact() -> None:
        failures = []
        for host, port in addresses:
            try:
                Connection(host, port, hasty).close()
                outcome.append("")
                return
            except Exception as failure:  # told below: this thread has nobody to raise it to
                failures.append(str(failure))
        outcome.append("; ".join(failures))

    thread = threading.Thread(target=contact, daemon=True)
    thread.start()
    thread.join(CONTACT_SECONDS + 0.5)
    if outcome == [""]:
        return
    reason = outcome[0] if outcome else f"nothing answered within {CONTACT_SECONDS:.0f} s"
    listens = bool(outcome) and "cannot be reached" not in reason
    raise ToolError(f"no broker answers at {bootstrap}: {reason}\n{advice(addresses, listens=listens)}")


def require_client(bootstrap: str, settings: Mapping[str, str]) -> None:
    """Return once a broker has answered a client with these settings. ToolError says what prevents it: a
    certificate, a password, a mechanism; librdkafka would only try again. Settings that only librdkafka
    knows are left to it.
    """
    from moldau.common.credentials.client.options import PLAINTEXT, client_security, is_supported
    from moldau.common.credentials.errors import CredentialsError
    from moldau.tools.shared.connection import require_listener

    settings = _with_login(settings)
    try:
        security = client_security({name: value for name, value in settings.items() if is_supported(name)})
    except CredentialsError as problem:
        if settings.get("security.protocol", "").upper() not in ("", "PLAINTEXT"):
            raise ToolError(str(problem)) from None
        security = PLAINTEXT
    if security.sasl is not None and security.sasl.mechanism not in OUR_MECHANISMS:
        require_listener(parse_servers(bootstrap))
        return
    require_broker(bootstrap, ClientOptions(client_id="moldau-tool", security=security))


def advice(addresses: Sequence[tuple[str, int]], *, listens: bool = False) -> str:
    """Return what to do when no broker answers. `listens`: something accepts connections there."""
    if listens:
        host, port = addresses[0]
        return (
            f"Something listens there: see the broker's log, or find out with: moldau doctor -b {host}:{port}"
        )
    port = addresses[0][1]
    start = "moldau serve" if port == 9092 else f"moldau serve --port {port}"
    return f"Start one with: {start}   or name another one: --bootstrap-server HOST:PORT"


def librdkafka(given: Given, **more: Any) -> dict[str, Any]:
    """Return the settings of a confluent-kafka client: the tool's own (underscores become dots), then the
    user's, with Java's names translated. The first contact is made here, as in `cluster`.
    """
    from moldau.tools.kafka.java.java_settings import translate
    from moldau.tools.shared.connection import QUIET

    bootstrap = servers(given)
    java = client_settings(given)
    theirs = translate(java)
    theirs.pop("bootstrap.servers", None)  # the option goes first, as in Kafka
    require_client(bootstrap, java)
    ours = {name.replace("_", "."): value for name, value in more.items()}
    return {"bootstrap.servers": bootstrap, "client.id": "moldau-tool", "logger": QUIET, **ours, **theirs}
