"""What an HTTP service is told about its listeners and limits, by Confluent's names (rest-utils).

One row a setting: the attribute is the name with `_` for `.`. Not here: what a service has
beside (the registry's and the proxy's own settings).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

from moldau.common.settings.checks import at_least, one_of_any_case
from moldau.common.settings.rows import Kind, SettingError
from moldau.common.settings.table import (
    SettingsObject,
    boolean,
    integer,
    listing,
    long,
    parse_all,
    part,
    table,
    text,
)

_MIB = 1024 * 1024


@part
class HttpSettingsPart(SettingsObject):
    """Settings that every HTTP service has; a service's own table inherits from it."""

    listeners: tuple[str, ...] = listing(
        (),
        "Where the service listens: http://HOST:PORT or https://HOST:PORT, several with commas. "
        "Moldau's default is the loopback interface.",
    )
    host_name: str = text("", "The host name by which other instances reach this one.")
    idle_timeout_ms: int = long(30_000, "A connection on which nothing moves so long is closed.", at_least(1))
    shutdown_graceful_ms: int = long(
        1_000, "How long requests that run may take to end when the service stops.", at_least(0)
    )
    max_request_header_size: int = integer(
        8_192 * 2, "The largest request line and headers together, in bytes.", at_least(512)
    )
    server_connection_limit: int = integer(
        1_000,
        "The most connections at a time; for a further one, the oldest idle one of the busiest host is "
        "closed. Confluent's default is no limit.",
        at_least(1),
    )
    compression_enable: bool = boolean(True, "Whether responses are compressed for clients that accept it.")
    access_control_allow_origin: str = text(
        "", "The origins (CORS) whose scripts may read responses; `*` for all, several with commas."
    )
    access_control_allow_methods: str = text("", "The methods for those scripts; empty: GET, POST and HEAD.")
    access_control_allow_headers: str = text("", "The headers for those scripts; empty: the usual ones.")
    authentication_method: str = text(
        "NONE",
        "How clients say who they are: NONE, BASIC (name and password) or BEARER (a token). A file of users "
        "or of tokens alone asks for a login, too; where both are set, both are taken.",
        one_of_any_case("NONE", "BASIC", "BEARER"),
    )
    authentication_realm: str = text("moldau", "The realm that browsers show when they ask for a password.")
    authentication_roles: tuple[str, ...] = listing(
        ("*",), "The roles of users who are let in; `*`: all users."
    )
    authentication_skip_paths: tuple[str, ...] = listing(
        (), "Paths that need no login, besides /health/live."
    )
    ssl_keystore_location: str | None = text(None, "The file with the server's key and certificate.")
    ssl_keystore_password: str | None = text(None, "The password of that file.", kind=Kind.PASSWORD)
    ssl_keystore_type: str = text("JKS", "JKS, PKCS12 or PEM.")
    ssl_keystore_key: str | None = text(None, "The private key itself, in PEM.", kind=Kind.PASSWORD)
    ssl_keystore_certificate_chain: str | None = text(None, "The certificates themselves, in PEM.")
    ssl_key_password: str | None = text(None, "The password of the private key.", kind=Kind.PASSWORD)
    ssl_truststore_location: str | None = text(
        None, "The file with certificates that clients are checked by."
    )
    ssl_truststore_password: str | None = text(None, "The password of that file.", kind=Kind.PASSWORD)
    ssl_truststore_type: str = text("JKS", "JKS, PKCS12 or PEM.")
    ssl_truststore_certificates: str | None = text(None, "The trusted certificates themselves, in PEM.")
    ssl_client_authentication: str = text(
        "NONE",
        "Whether clients show a certificate: NONE, REQUESTED, REQUIRED.",
        one_of_any_case("NONE", "REQUESTED", "REQUIRED"),
    )
    ssl_client_auth: bool = boolean(False, "The older name: true is ssl.client.authentication=REQUIRED.")
    ssl_enabled_protocols: tuple[str, ...] = listing((), "Versions of TLS; default TLSv1.2, TLSv1.3.")
    ssl_cipher_suites: tuple[str, ...] = listing((), "Cipher suites, by Java's names.")
    ssl_principal_mapping_rules: str = text(
        "DEFAULT", "How the subject of a client's certificate becomes a user, as Kafka's setting."
    )
    moldau_http_users_file: str | None = text(
        None, "The users: lines `name: password, role, role`, as Jetty's property file; see docs."
    )
    moldau_http_tokens_file: str | None = text(
        None, "Tokens for Authorization: Bearer: lines `token: name, role, role`."
    )
    moldau_http_jwks_url: str | None = text(
        None, "Where the keys of an issuer of signed tokens are (JWKS): https:, http: or file:."
    )
    moldau_http_token_audience: tuple[str, ...] = listing(
        (), "The audiences of which a signed token must name one."
    )
    moldau_http_token_issuer: str = text("", "The issuer that a signed token must name.")
    moldau_http_token_name_claim: str = text("sub", "The claim of a signed token that names the user.")
    moldau_http_token_roles_claim: str = text("roles", "The claim of a signed token with the roles.")
    moldau_http_rights_file: str | None = text(
        None, "Who may do what: lines `WHO OPERATIONS KIND:PREFIX`. Unset: whoever is let in may do all."
    )
    moldau_http_host_names: tuple[str, ...] = listing(
        (),
        "Names that a service on loopback without a login answers to besides localhost (a reverse proxy that "
        "passes the Host header on, say); `*`: all.",
    )
    moldau_http_body_bytes_max: int = long(
        16 * _MIB, "The largest body of a request, in bytes, also after decompression.", at_least(1024)
    )
    moldau_http_bodies_bytes_max: int = long(
        256 * _MIB, "The most bytes of bodies that are held at a time, of all requests.", at_least(1024)
    )
    moldau_http_json_depth_max: int = integer(
        500, "The deepest nesting of JSON in a request's body.", at_least(8)
    )
    moldau_http_send_timeout_ms: int = long(
        30_000, "A client that reads nothing of its response for so long is disconnected.", at_least(1)
    )


@table
class HttpSettings(HttpSettingsPart):
    """The settings of a service that has none beside."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One address."""

    scheme: str
    host: str
    port: int


def listeners_of(values: tuple[str, ...], default_port: int) -> tuple[Listener, ...]:
    """The setting `listeners`, taken apart; loopback and `default_port` if it is empty. SettingError."""
    return tuple(_listener(each) for each in values) or (Listener("http", "127.0.0.1", default_port),)


def _listener(value: str) -> Listener:
    scheme, mark, rest = value.partition("://")
    if not mark:
        scheme, rest = "http", value
    host, colon, port = rest.rstrip("/").rpartition(":")
    if not colon:
        host = "127.0.0.1"  # a port alone is no wish to be reached from everywhere
    if scheme.lower() not in ("http", "https") or not port.isdigit() or int(port) > 65535:
        raise SettingError(
            "listeners", f"listeners={value} is no address: write http://HOST:PORT or https://HOST:PORT"
        )
    return Listener(scheme.lower(), host.strip("[]"), int(port))


T = TypeVar("T", bound=SettingsObject)


def settings_from(
    cls: type[T], texts: Mapping[str, str], *, families: tuple[str, ...] = ()
) -> tuple[T, list[str]]:
    """The settings of a table from texts by name, and a warning for each that is not known.

    Names that begin with one of `families` are somebody else's and not warned of. SettingError.
    """
    known = [(name, value) for name, value in texts.items() if name in cls.ROWS]
    warnings = []
    for name in texts:
        if name in cls.ROWS or name.startswith(families):
            continue
        near = get_close_matches(name, cls.ROWS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        warnings.append(f"the setting {name} is not known and has no effect{hint}")
    return parse_all(cls, known), warnings
