"""Broker settings about the ZooKeeper ensemble, by the names that Kafka had for them up to 3.9."""

from moldau.common.settings.checks import at_least
from moldau.common.settings.rows import Kind
from moldau.common.settings.table import SettingsObject, boolean, integer, listing, part, text


@part
class ZooKeeperSettings(SettingsObject):
    """The ensemble that holds the metadata of a cluster of several brokers."""

    zookeeper_connect: str | None = text(
        None,
        "The ZooKeeper ensemble that holds the cluster's metadata: host:port,host:port/chroot. Brokers with "
        "the same value form a cluster. Unset: a single broker, with its metadata in its data folder; set "
        "later, the broker takes its metadata along to an empty ensemble.",
    )
    zookeeper_session_timeout_ms: int = integer(
        18_000,
        "After how long without a sign of life ZooKeeper counts a broker as gone, in milliseconds; failover "
        "takes that long. ZooKeeper allows from 2 to 20 of its ticks.",
        at_least(1),
    )
    zookeeper_connection_timeout_ms: int | None = integer(
        None,
        "How long a start waits for ZooKeeper, in milliseconds; unset: 18 s, or "
        "zookeeper.session.timeout.ms where that is longer.",
    )
    zookeeper_max_in_flight_requests: int = integer(
        10, "How many requests to ZooKeeper may be unanswered before the next one waits.", at_least(1)
    )
    zookeeper_set_acl: bool = boolean(
        False,
        "Whether the nodes in ZooKeeper may only be changed, and those with settings only be read, with the "
        "credentials of moldau.zookeeper.user.",
    )
    moldau_zookeeper_user: str | None = text(
        None, "The user of ZooKeeper's digest scheme, which asks for no login."
    )
    moldau_zookeeper_password: str | None = text(
        None, "The password of moldau.zookeeper.user.", kind=Kind.PASSWORD
    )
    moldau_zookeeper_sasl_jaas_config: str | None = text(
        None,
        "The login by SASL (DIGEST-MD5) where ZooKeeper asks for one, in the syntax of JAAS: "
        'org.apache.zookeeper.server.auth.DigestLoginModule required username="..." password="..."; '
        "Kafka has it in the section Client of a JAAS file, which is read as well.",
        kind=Kind.PASSWORD,
    )
    zookeeper_ssl_client_enable: bool = boolean(False, "Whether connections to ZooKeeper use TLS.")
    zookeeper_ssl_keystore_location: str | None = text(
        None,
        "A file with the broker's private key and certificates (PEM, PKCS12 or JKS), where ZooKeeper asks "
        "for them.",
    )
    zookeeper_ssl_keystore_password: str | None = text(
        None, "The password of the key store and of its private key.", kind=Kind.PASSWORD
    )
    zookeeper_ssl_keystore_type: str | None = text(
        None, "PEM, PKCS12 or JKS; unset: by the end of the file's name (.pem, .p12, .jks)."
    )
    zookeeper_ssl_truststore_location: str | None = text(
        None,
        "A file with the certificates that ZooKeeper's are checked against (PEM, PKCS12 or JKS); unset: the "
        "system's.",
    )
    zookeeper_ssl_truststore_password: str | None = text(
        None, "The password of the trust store; PEM files have none.", kind=Kind.PASSWORD
    )
    zookeeper_ssl_truststore_type: str | None = text(
        None, "PEM, PKCS12 or JKS; unset: by the end of the file's name (.pem, .p12, .jks)."
    )
    zookeeper_ssl_enabled_protocols: tuple[str, ...] = listing(
        (), "The versions of TLS that are spoken with ZooKeeper, of TLSv1.2 and TLSv1.3; empty: both."
    )
    zookeeper_ssl_cipher_suites: tuple[str, ...] = listing(
        (), "The cipher suites of connections to ZooKeeper, by Java's names; empty: OpenSSL's choice."
    )
    zookeeper_ssl_endpoint_identification_algorithm: str = text(
        "HTTPS", "HTTPS: ZooKeeper's certificate must be for its host's name; empty: for any."
    )
