"""The broker's settings about TLS, SASL and authorisation. None is served yet; they are accepted and
described."""

from moldau.core.settings.checks import at_least, one_of
from moldau.core.settings.rows import Kind
from moldau.core.settings.table import SettingsObject, boolean, integer, listing, long, part, text


@part
class SecuritySettings(SettingsObject):
    """Who may connect, and what for."""

    ssl_keystore_type: str = text("JKS", "The format of the key store.", effective=False)
    ssl_keystore_location: str | None = text(None, "The file of the key store.", effective=False)
    ssl_keystore_password: str | None = text(
        None, "The password of the key store.", kind=Kind.PASSWORD, effective=False
    )
    ssl_keystore_key: str | None = text(
        None, "The private key, as PEM text.", kind=Kind.PASSWORD, effective=False
    )
    ssl_keystore_certificate_chain: str | None = text(
        None, "The certificate chain, as PEM text.", kind=Kind.PASSWORD, effective=False
    )
    ssl_key_password: str | None = text(
        None, "The password of the private key.", kind=Kind.PASSWORD, effective=False
    )
    ssl_truststore_type: str = text("JKS", "The format of the trust store.", effective=False)
    ssl_truststore_location: str | None = text(None, "The file of the trust store.", effective=False)
    ssl_truststore_password: str | None = text(
        None, "The password of the trust store.", kind=Kind.PASSWORD, effective=False
    )
    ssl_truststore_certificates: str | None = text(
        None, "The trusted certificates, as PEM text.", kind=Kind.PASSWORD, effective=False
    )
    ssl_client_auth: str = text(
        "none",
        "Whether clients have to show a certificate.",
        one_of("required", "requested", "none"),
        effective=False,
    )
    ssl_protocol: str = text("TLSv1.3", "The newest TLS version offered.", effective=False)
    ssl_enabled_protocols: tuple[str, ...] = listing(
        ("TLSv1.2", "TLSv1.3"), "The TLS versions offered.", effective=False
    )
    ssl_principal_mapping_rules: str = text(
        "DEFAULT", "How a certificate's name becomes a user name.", effective=False
    )
    sasl_enabled_mechanisms: tuple[str, ...] = listing(
        ("GSSAPI",), "The SASL mechanisms offered.", effective=False
    )
    sasl_jaas_config: str | None = text(
        None, "Credentials in the syntax of JAAS.", kind=Kind.PASSWORD, effective=False
    )
    sasl_mechanism_inter_broker_protocol: str = text(
        "GSSAPI", "The SASL mechanism among brokers.", effective=False
    )
    sasl_mechanism_controller_protocol: str = text(
        "GSSAPI", "The SASL mechanism towards controllers.", effective=False
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = text(
        None, "Where the keys of the token issuer are found.", effective=False
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] | None = listing(
        None, "The audiences that a token must name.", effective=False
    )
    sasl_oauthbearer_expected_issuer: str | None = text(
        None, "The issuer that a token must name.", effective=False
    )
    sasl_oauthbearer_sub_claim_name: str = text("sub", "The claim that holds the user name.", effective=False)
    sasl_oauthbearer_scope_claim_name: str = text("scope", "The claim that holds the scope.", effective=False)
    sasl_oauthbearer_clock_skew_seconds: int = integer(
        30, "How far clocks may differ, in seconds.", effective=False
    )
    connections_max_reauth_ms: int = long(
        0, "After how many milliseconds a client must authenticate anew (KIP-368); 0: never.", effective=False
    )
    authorizer_class_name: str = text(
        "", "The class that decides who may do what; empty lets everyone do everything.", effective=False
    )
    super_users: str = text(
        "", "Users who may do everything: User:name, separated by semicolons.", effective=False
    )
    allow_everyone_if_no_acl_found: bool = boolean(
        False, "Whether a resource without rules is open to everyone.", effective=False
    )
    delegation_token_secret_key: str | None = text(
        None, "The secret that signs delegation tokens.", kind=Kind.PASSWORD, effective=False
    )
    delegation_token_max_lifetime_ms: int = long(
        604_800_000, "How long a delegation token may live, in milliseconds.", at_least(1), effective=False
    )
    delegation_token_expiry_time_ms: int = long(
        86_400_000,
        "How long a delegation token lives without renewal, in milliseconds.",
        at_least(1),
        effective=False,
    )
