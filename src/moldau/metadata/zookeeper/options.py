"""What the store needs to know: where the ensemble is, for how long sessions last, how to authenticate."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

DEFAULT_PORT = 2181


class Tls(NamedTuple):
    """TLS to the ensemble, with PEM files. `identity`: the client's key and certificates, if it has any;
    `trusted`: certificates that the servers' are checked against, or None for the system's."""

    identity: str | None = None
    identity_password: str | None = None
    trusted: str | None = None
    checks_host: bool = True


class Options(NamedTuple):
    """`hosts`: "host:port,host:port"; `root`: the chroot, "" or "/a/b".

    `credentials`: "user:password" of ZooKeeper's digest scheme. `private`: whether only who has the
    credentials may change the nodes, and read those that are not Kafka's.
    `protocols`: the security protocol of each listener.
    `snapshot_entries`: a snapshot is written after so many entries; `kept_entries`: so many remain behind it.
    """

    hosts: str
    root: str = ""
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = 18_000
    in_flight_max: int = 10
    credentials: str | None = None
    private: bool = False
    tls: Tls | None = None
    protocols: Mapping[str, str] = MappingProxyType({})
    snapshot_entries: int = 1_000
    kept_entries: int = 1_000
