"""What the store needs to know: where the ensemble is, for how long sessions last, how to authenticate."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.jaas import JaasError, parse_jaas
from moldau.common.credentials.tls.contexts import client_context
from moldau.common.credentials.tls.options import SERVED_PROTOCOLS, TlsOptions
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.listeners import protocol_map
from moldau.common.settings.rows import SettingError

DEFAULT_PORT = 2181
_SASL = "moldau.zookeeper.sasl.jaas.config"
_PASSWORD_MODULES = ("DigestLoginModule", "PlainLoginModule", "ScramLoginModule")

CONNECTION_TIMEOUT_MS = 18_000


class SaslLogin(NamedTuple):
    """A user of ZooKeeper's own JAAS file, who logs in by DIGEST-MD5."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"SaslLogin({self.username!r}, [hidden])"


class Options(NamedTuple):
    """`hosts`: "host:port,host:port"; `root`: the chroot, "" or "/a/b".

    `credentials`: "user:password" of ZooKeeper's digest scheme. `sasl`: the login by SASL. `private`: whether
    only who has the credentials may change the nodes, and read those that are not Kafka's.
    `protocols`: the security protocol of each listener.
    A snapshot is written after `snapshot_entries` entries, or `snapshot_bytes` of them; the newest
    `kept_entries` remain behind it, but none from before the last snapshot.
    """

    hosts: str
    root: str = ""
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = CONNECTION_TIMEOUT_MS
    in_flight_max: int = 10
    credentials: str | None = None
    sasl: SaslLogin | None = None
    private: bool = False
    tls: TlsOptions | None = None
    protocols: Mapping[str, str] = MappingProxyType({})
    snapshot_entries: int = 1_000
    snapshot_bytes: int = 8_388_608
    kept_entries: int = 1_000


def options_of(settings: BrokerSettings) -> Options:
    """The options that a broker's settings ask for. SettingError: one of them cannot be used."""
    hosts, root = parse_connect(settings.zookeeper_connect or "")
    user, password = settings.moldau_zookeeper_user, settings.moldau_zookeeper_password
    if (user is None) != (password is None):
        raise SettingError(
            "moldau.zookeeper.user",
            "moldau.zookeeper.user and moldau.zookeeper.password belong together: set both or neither",
        )
    sasl = sasl_login(settings.moldau_zookeeper_sasl_jaas_config, _SASL)
    if settings.zookeeper_set_acl and user is None and sasl is None:
        raise SettingError(
            "zookeeper.set.acl",
            "zookeeper.set.acl needs moldau.zookeeper.user and moldau.zookeeper.password, or "
            "moldau.zookeeper.sasl.jaas.config: access is reserved for that user",
        )
    session_timeout_ms = settings.zookeeper_session_timeout_ms
    # Kafka takes the session's, by default 18 s. A short one, for quick failovers, says nothing about how
    # long an ensemble takes that is started at the same time.
    connection_timeout_ms = max(session_timeout_ms, CONNECTION_TIMEOUT_MS)
    return Options(
        hosts,
        root,
        session_timeout_ms=session_timeout_ms,
        connection_timeout_ms=settings.zookeeper_connection_timeout_ms or connection_timeout_ms,
        in_flight_max=settings.zookeeper_max_in_flight_requests,
        credentials=None if user is None else f"{user}:{password}",
        sasl=sasl,
        private=settings.zookeeper_set_acl,
        tls=_tls(settings) if settings.zookeeper_ssl_client_enable else None,
        protocols=protocol_map(settings),
    )


def parse_connect(text: str) -> tuple[str, str]:
    """Hosts and chroot of a connect string: "a:1,b/c/" is ("a:1,b:2181", "/c"). SettingError."""
    hosts, slash, chroot = text.partition("/")
    names = [name for name in chroot.split("/") if name]
    found = []
    for each in hosts.split(","):
        host, colon, port = each.strip().rpartition(":")
        if not colon or port.endswith("]"):  # no port; perhaps an IPv6 address
            host, port = each.strip(), str(DEFAULT_PORT)
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise SettingError(
                "zookeeper.connect",
                f"zookeeper.connect={text} is not of the form host:port,host:port/chroot: "
                f"'{each.strip()}' is no address",
            )
        found.append(f"{host}:{port}")
    if any(name in (".", "..") for name in names):
        raise SettingError(
            "zookeeper.connect", f"zookeeper.connect={text} has no usable chroot: {slash}{chroot}"
        )
    return ",".join(found), "".join(f"/{name}" for name in names)


def sasl_login(text: str | None, setting: str, place: str | None = None) -> SaslLogin | None:
    """The login of a JAAS entry; None without one. SettingError, about `setting`: it cannot be used; the
    sentence says where it stands (`place`; else the setting).

    As in Kafka, ZooKeeper's client logs in by DIGEST-MD5 whatever module names user and password.
    """
    if not text:
        return None
    place = place or setting
    try:
        entry = parse_jaas(text)
    except JaasError as error:
        raise SettingError(setting, f"{place} cannot be read: {error}") from None
    if entry.module_name not in _PASSWORD_MODULES:
        named = " (Kerberos is not spoken with ZooKeeper)" if entry.module_name == "Krb5LoginModule" else ""
        raise SettingError(
            setting,
            f"{place} needs the login module org.apache.zookeeper.server.auth.DigestLoginModule{named}",
        )
    username, password = entry.options.get("username"), entry.options.get("password")
    if not username or password is None:
        raise SettingError(setting, f'{place} needs username="..." and password="..."')
    return SaslLogin(username, password)


_STORE_TYPES = {
    "pem": "PEM",
    "crt": "PEM",
    "cer": "PEM",
    "key": "PEM",
    "jks": "JKS",
    "p12": "PKCS12",
    "pfx": "PKCS12",
    "pkcs12": "PKCS12",
}
"""The formats of key stores, by the end of the file's name or the setting `.type`, in small letters."""


def _tls(settings: BrokerSettings) -> TlsOptions:
    """TLS to the ensemble. SettingError: the stores cannot be used, which are read for that."""
    identity, trusted = settings.zookeeper_ssl_keystore_location, settings.zookeeper_ssl_truststore_location
    found = TlsOptions(
        keystore_type=_store_type("keystore", identity, settings.zookeeper_ssl_keystore_type),
        keystore_location=identity,
        keystore_password=settings.zookeeper_ssl_keystore_password,
        key_password=settings.zookeeper_ssl_keystore_password,  # ZooKeeper has no setting of its own for it
        truststore_type=_store_type("truststore", trusted, settings.zookeeper_ssl_truststore_type),
        truststore_location=trusted,
        truststore_password=settings.zookeeper_ssl_truststore_password,
        enabled_protocols=settings.zookeeper_ssl_enabled_protocols or SERVED_PROTOCOLS,
        cipher_suites=settings.zookeeper_ssl_cipher_suites,
        endpoint_identification_algorithm=(
            settings.zookeeper_ssl_endpoint_identification_algorithm.strip().lower()
        ),
    )
    try:
        client_context(found)
    except CredentialsError as error:
        said = re.sub(r"\bssl\.key\.password\b", "ssl.keystore.password", str(error))
        said = re.sub(r"(?<![.\w])ssl\.", "zookeeper.ssl.", said)
        raise SettingError("zookeeper.ssl.client.enable", said) from None
    return found


def _store_type(what: str, location: str | None, named: str | None) -> str:
    form = _STORE_TYPES.get((named or (location or "pem").rpartition(".")[2]).strip().lower())
    if form is None:
        raise SettingError(
            f"zookeeper.ssl.{what}.type",
            f"zookeeper.ssl.{what}.location={location}: zookeeper.ssl.{what}.type={named or ''} must be PEM, "
            "PKCS12 or JKS, or the file's name end in .pem, .p12 or .jks",
        )
    return form
