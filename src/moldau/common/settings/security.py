"""The broker's settings about TLS, SASL, delegation tokens and authorisation.

What guards and cannot be served is refused (guards.py); a row without
effect says so (`effective=False`).
"""

from moldau.common.settings.checks import at_least, one_of, principals
from moldau.common.settings.guards import only_known
from moldau.common.settings.rows import Kind, Scope
from moldau.common.settings.table import (
    SettingsObject,
    boolean,
    double,
    integer,
    listing,
    long,
    part,
    text,
)

_BROKER = Scope.PER_BROKER
_CLUSTER = Scope.CLUSTER_WIDE


@part
class SecuritySettings(SettingsObject):
    """Who may connect, and what for."""

    ssl_keystore_type: str = text(
        "JKS", "The format of the key store: PEM, PKCS12 or JKS (which opens PKCS12 too)."
    )
    ssl_keystore_location: str | None = text(None, "The file of the key store.")
    ssl_keystore_password: str | None = text(None, "The password of the key store.", kind=Kind.PASSWORD)
    ssl_keystore_key: str | None = text(None, "The private key, as PEM text.", kind=Kind.PASSWORD)
    ssl_keystore_certificate_chain: str | None = text(
        None, "The certificate chain, as PEM text.", kind=Kind.PASSWORD
    )
    ssl_key_password: str | None = text(None, "The password of the private key.", kind=Kind.PASSWORD)
    ssl_truststore_type: str = text("JKS", "The format of the trust store: PEM, PKCS12 or JKS.")
    ssl_truststore_location: str | None = text(None, "The file of the trust store.")
    ssl_truststore_password: str | None = text(None, "The password of the trust store.", kind=Kind.PASSWORD)
    ssl_truststore_certificates: str | None = text(
        None, "The trusted certificates, as PEM text.", kind=Kind.PASSWORD
    )
    ssl_client_auth: str = text(
        "none",
        "Whether clients have to show a certificate: none, requested, required. On a SASL_SSL listener only "
        "with that listener's prefix (listener.name.<name>.).",
        one_of("required", "requested", "none"),
        scope=_BROKER,
    )
    ssl_enabled_protocols: tuple[str, ...] = listing(
        ("TLSv1.2", "TLSv1.3"), "The TLS versions offered.", scope=_BROKER
    )
    ssl_principal_mapping_rules: str = text(
        "DEFAULT",
        "How a certificate's name becomes a user name: rules RULE:pattern/replacement/[LU] and DEFAULT, "
        "separated by commas; the first that matches the whole name holds. Patterns run in RE2, which has no "
        "look-ahead and no back-references within a pattern; such a rule is refused at the start.",
    )
    moldau_ssl_handshake_timeout_ms: int = long(
        30_000,
        "How long a TLS handshake may take, in milliseconds; afterwards the connection is closed.",
        at_least(1),
    )
    moldau_ssl_files_check_interval_ms: int = long(
        10_000,
        "How often, in milliseconds, the files of key and trust stores are looked at: changed ones hold for "
        "new connections without a restart. 0: never.",
        at_least(0),
    )
    sasl_enabled_mechanisms: tuple[str, ...] = listing(
        ("GSSAPI",), "The SASL mechanisms offered.", scope=_BROKER
    )
    sasl_jaas_config: str | None = text(
        None, "Credentials in the syntax of JAAS.", kind=Kind.PASSWORD, scope=_BROKER
    )
    sasl_mechanism_inter_broker_protocol: str = text(
        "GSSAPI", "The SASL mechanism among brokers.", scope=_BROKER
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = text(None, "The URL of the token issuer's keys.")
    sasl_oauthbearer_expected_audience: tuple[str, ...] = listing((), "The audiences that a token must name.")
    sasl_oauthbearer_expected_issuer: str | None = text(None, "The issuer that a token must name.")
    sasl_oauthbearer_sub_claim_name: str = text("sub", "The claim that holds the user name.")
    sasl_oauthbearer_scope_claim_name: str = text("scope", "The claim that holds the scope.")
    sasl_oauthbearer_clock_skew_seconds: int = integer(
        30, "How far clocks may differ, in seconds.", at_least(0)
    )
    connections_max_reauth_ms: int = long(
        0, "After how many milliseconds a client must authenticate anew (KIP-368); 0: never."
    )
    authorizer_class_name: str = text(
        "",
        "What decides who may do what: Kafka's StandardAuthorizer stands for the ACLs of the cluster; empty: "
        "everybody may do everything.",
        one_of(
            "",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "kafka.security.authorizer.AclAuthorizer",
            "kafka.security.auth.SimpleAclAuthorizer",
        ),
    )
    super_users: str = text(
        "", "Principals that may do everything: User:name, separated by semicolons.", principals()
    )
    allow_everyone_if_no_acl_found: bool = boolean(
        False, "Whether a resource without ACLs is open to everyone."
    )
    moldau_audit_allowed_enable: bool = boolean(
        False, "Whether the audit is told of operations that were allowed, too."
    )
    moldau_audit_topic: str = text(
        "",
        "The topic to which audit events (refused operations, administrative changes) are written as JSON; "
        "empty: the log moldau.audit, where an authorizer is set.",
    )
    delegation_token_secret_key: str | None = text(
        None, "The secret that signs delegation tokens.", kind=Kind.PASSWORD
    )
    delegation_token_max_lifetime_ms: int = long(
        604_800_000, "How long a delegation token may live, in milliseconds.", at_least(1)
    )
    delegation_token_expiry_time_ms: int = long(
        86_400_000, "How long a delegation token lives without renewal, in milliseconds.", at_least(1)
    )
    delegation_token_expiry_check_interval_ms: int = long(
        3_600_000, "How often expired delegation tokens are looked for, in milliseconds.", at_least(1)
    )
    principal_builder_class: str = text(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "The class that derives the principal of a connection. Only Kafka's own is known; the broker refuses "
        "to start with another one.",
        only_known(
            "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
            "DefaultKafkaPrincipalBuilder",
            consequence="ACLs would see other principals than were meant. Remove the setting; "
            "ssl.principal.mapping.rules and sasl.kerberos.principal.to.local.rules map names",
        ),
        kind=Kind.CLASS,
        scope=_BROKER,
        effective=False,
    )
    sasl_kerberos_principal_to_local_rules: tuple[str, ...] = listing(
        ("DEFAULT",),
        "How a Kerberos name becomes a user name. Patterns run in RE2, which has no look-ahead and no "
        "back-references within a pattern; such a rule is refused at the start.",
        scope=_BROKER,
    )
    sasl_kerberos_service_name: str | None = text(
        None, "The Kerberos name of the broker's service.", scope=_BROKER
    )
    sasl_login_connect_timeout_ms: int | None = integer(
        None, "How long a connection to an identity provider may take, in milliseconds."
    )
    sasl_login_read_timeout_ms: int | None = integer(
        None, "How long the response of an identity provider may take, in milliseconds."
    )
    sasl_login_refresh_window_factor: float = double(
        0.8, "The share of a login's life after which it is renewed.", scope=_BROKER
    )
    sasl_oauthbearer_assertion_algorithm: str = text(
        "RS256", "The algorithm that signs an assertion for an identity provider."
    )
    sasl_oauthbearer_assertion_claim_aud: str | None = text(None, "The audience that an assertion names.")
    sasl_oauthbearer_assertion_claim_exp_seconds: int = integer(
        300, "How long an assertion holds, in seconds."
    )
    sasl_oauthbearer_assertion_claim_iss: str | None = text(None, "The issuer that an assertion names.")
    sasl_oauthbearer_assertion_claim_jti_include: bool = boolean(
        False, "Whether an assertion has an id of its own."
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = integer(
        60, "How long before now an assertion begins to hold, in seconds."
    )
    sasl_oauthbearer_assertion_claim_sub: str | None = text(None, "The subject that an assertion names.")
    sasl_oauthbearer_assertion_file: str | None = text(
        None, "The file of an assertion that was made elsewhere."
    )
    sasl_oauthbearer_assertion_private_key_file: str | None = text(
        None, "The file of the key that signs an assertion."
    )
    sasl_oauthbearer_assertion_private_key_passphrase: str | None = text(
        None, "The passphrase of the key that signs an assertion.", kind=Kind.PASSWORD
    )
    sasl_oauthbearer_assertion_template_file: str | None = text(
        None, "The file of a template that assertions are made from."
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = text(
        None, "The client id that an identity provider is shown."
    )
    sasl_oauthbearer_client_credentials_client_secret: str | None = text(
        None, "The client secret that an identity provider is shown.", kind=Kind.PASSWORD
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = long(
        3_600_000, "How often the keys of the token issuer are fetched anew, in milliseconds."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = long(
        10_000,
        "The longest wait between two attempts to fetch the keys of the token issuer, in milliseconds.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = long(
        100, "The first wait between two attempts to fetch the keys of the token issuer, in milliseconds."
    )
    sasl_oauthbearer_jwt_retriever_class: str = text(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "The class that requests tokens.",
        kind=Kind.CLASS,
    )
    sasl_oauthbearer_jwt_validator_class: str = text(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        "The class that checks tokens. Only Kafka's own are known; the broker refuses to start with another "
        "one.",
        only_known(
            "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
            "org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
            consequence="Tokens that it refuses would be taken. Remove the setting; sasl.oauthbearer.* says "
            "what a token must hold",
        ),
        kind=Kind.CLASS,
        effective=False,
    )
    sasl_oauthbearer_scope: str | None = text(None, "The scope that tokens are asked for with.")
    sasl_oauthbearer_token_endpoint_url: str | None = text(None, "The URL from which tokens are requested.")
    sasl_server_callback_handler_class: str | None = text(
        None,
        "The class that checks credentials. Only Kafka's own are known; the broker refuses to start with "
        "another one.",
        only_known(
            "PlainServerCallbackHandler",
            "ScramServerCallbackHandler",
            "OAuthBearerValidatorCallbackHandler",
            "OAuthBearerUnsecuredValidatorCallbackHandler",
            any_package=True,
            consequence="It is a Java class, and whom it refuses would get in. Remove the setting; "
            "docs/security.md says how to name who may log in",
        ),
        kind=Kind.CLASS,
    )
    sasl_server_max_receive_size: int = integer(524_288, "The most bytes of one step of a SASL exchange.")
    security_providers: str | None = text(
        None,
        "Classes that add Java security providers. There are none here, and the broker refuses to start with "
        "one.",
        only_known(
            consequence="Ciphers are those of OpenSSL: remove the setting, and configure OpenSSL (a FIPS "
            "provider too) in openssl.cnf"
        ),
        effective=False,
    )
    ssl_allow_dn_changes: bool = boolean(
        False, "Whether a new certificate may have another distinguished name."
    )
    ssl_allow_san_changes: bool = boolean(False, "Whether a new certificate may leave out alternative names.")
    ssl_cipher_suites: tuple[str, ...] = listing(
        (),
        "The cipher suites offered, by Java's names; empty: all that OpenSSL holds sound. Those of TLS 1.3 "
        "are offered all or none.",
        scope=_BROKER,
    )
    ssl_endpoint_identification_algorithm: str = text(
        "https", "How a server's name is compared with its certificate.", scope=_BROKER
    )
    ssl_engine_factory_class: str | None = text(
        None,
        "The class that makes TLS engines. Only Kafka's own is known; the broker refuses to start with "
        "another one.",
        only_known(
            "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",
            consequence="Its keys and checks of certificates would be missing. Remove the setting and set "
            "ssl.keystore.* and ssl.truststore.*",
        ),
        kind=Kind.CLASS,
        scope=_CLUSTER,
        effective=False,
    )
    ssl_provider: str | None = text(
        None,
        "The Java security provider of TLS. Only that of a plain JDK is taken, for OpenSSL does its work; "
        "the broker refuses to start with another one.",
        only_known(
            "SunJSSE",
            consequence="TLS is OpenSSL's: remove the setting, and configure OpenSSL (a FIPS provider too) "
            "in openssl.cnf",
        ),
        scope=_BROKER,
        effective=False,
    )
    ssl_trustmanager_algorithm: str = text(
        "PKIX",
        "The algorithm of the trust manager. OpenSSL does the work of Java's own; the broker refuses to "
        "start with another one.",
        only_known(
            "PKIX",
            "SunX509",
            "SunPKIX",
            "X509",
            "X.509",
            consequence="Certificates that it refuses would be taken. Remove the setting",
        ),
        scope=_BROKER,
        effective=False,
    )
