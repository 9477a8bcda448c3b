"""What a client's settings say about security, under Java's names or librdkafka's.

    Java                                            librdkafka
    ssl.truststore.location .type .password         ssl.ca.location (PEM), ssl.ca.pem
    ssl.keystore.location .type .password,          ssl.certificate.location and ssl.key.location, or .pem;
      ssl.keystore.key .certificate.chain             ssl.keystore.location (PKCS12)
    ssl.key.password                                the same
    ssl.endpoint.identification.algorithm, empty    the same, none; enable.ssl.certificate.verification
    sasl.mechanism                                  sasl.mechanisms
    sasl.jaas.config                                sasl.username and sasl.password

The result is made of plain values, so that it can be pickled for Spark's executors; files are read where and
when a connection is made. Secrets are not in its repr, nor in an error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.jaas import JaasEntry, JaasError, parse_jaas
from moldau.common.credentials.tls.options import TlsOptions, tls_options

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
DEFAULT_MECHANISM = "GSSAPI"
"""Of Java's clients and librdkafka both."""

_ONLY_TLS = "ssl."
_ONLY_SASL = "sasl."
_OF_LIBRDKAFKA = frozenset(
    {
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "enable.ssl.certificate.verification",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
    }
)
_OF_JAVA = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.jaas.config",
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
    }
)
_WITHOUT_EFFECT = frozenset(
    {
        "ssl.protocol",
        "ssl.provider",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation",
        "ssl.engine.factory.class",
        "security.providers",
    }
)
"""Java's own classes and algorithms: OpenSSL has its own."""
_OF_MECHANISMS = ("sasl.kerberos.", "sasl.oauthbearer.", "sasl.login.", "sasl.client.callback.handler.class")


@dataclass(frozen=True, slots=True)
class SaslOptions:
    """How a client logs in. `module` and `options`: of its JAAS entry; `settings`: the `sasl.*` settings that
    one mechanism reads (`sasl.oauthbearer.token.endpoint.url`)."""

    mechanism: str
    module: str = ""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def user_and_password(self) -> tuple[str, str]:
        """What PLAIN and SCRAM need. CredentialsError if there is none."""
        username, password = self.options.get("username"), self.options.get("password")
        if not username or password is None:
            raise CredentialsError(
                f'sasl.jaas.config has no username="..." and password="...", which {self.mechanism} needs'
            )
        return username, password


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """How a client connects. `certificate_file` and `key_file` are PEM files apart from one another, as
    librdkafka names them. `checks_certificate`: False only where librdkafka's setting turns it off."""

    protocol: str = "PLAINTEXT"
    tls: TlsOptions | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    checks_certificate: bool = True
    sasl: SaslOptions | None = None

    @property
    def secured(self) -> bool:
        """Whether it is anything but PLAINTEXT."""
        return self.protocol != "PLAINTEXT"


PLAINTEXT = ClientSecurity()


def is_security_setting(name: str) -> bool:
    """Whether a client's setting of this name concerns TLS or SASL."""
    return name.startswith((_ONLY_TLS, _ONLY_SASL)) or name in _OF_JAVA | _OF_LIBRDKAFKA | _WITHOUT_EFFECT


def is_supported(name: str) -> bool:
    """Whether the setting is one of security, and `client_security` reads it."""
    known = name in _OF_JAVA or name in _OF_LIBRDKAFKA or name in _WITHOUT_EFFECT
    return known or name.startswith(_OF_MECHANISMS)


def client_security(settings: Mapping[str, str]) -> ClientSecurity:
    """What the settings ask for; others than those of security are ignored. CredentialsError: a sentence."""
    given = {name: value for name, value in settings.items() if is_security_setting(name)}
    protocol = given.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise CredentialsError(f"security.protocol is {protocol}; it may be {', '.join(PROTOCOLS)}")
    for name in given:
        if not is_supported(name):
            raise CredentialsError(f"{name} is a security setting that Moldau's client does not support")
    if "security.protocol" not in given:
        _refuse_without_protocol(given)
    security = _tls_part(given) if protocol.endswith("SSL") else PLAINTEXT
    sasl = _sasl_part(protocol, given) if protocol.startswith("SASL") else None
    return replace(security, protocol=protocol, sasl=sasl)


def jaas_entry(text: str, name: str = "sasl.jaas.config") -> JaasEntry:
    """The login module of a setting in JAAS notation. CredentialsError without anything of its values."""
    try:
        return parse_jaas(text)
    except JaasError as error:
        raise CredentialsError(
            f"{name}: {error}. It is written as: org.apache.kafka.common.security.plain.PlainLoginModule "
            'required username="..." password="...";'
        ) from None


def _refuse_without_protocol(given: Mapping[str, str]) -> None:
    """Refuse what means encryption or a login where security.protocol is left out: neither would happen."""
    for name in given:
        if name.endswith((".location", ".pem", ".certificates", "username", "password", "jaas.config")) or (
            name in ("sasl.mechanism", "sasl.mechanisms")
        ):
            raise CredentialsError(
                f"{name} has no effect without security.protocol: set SASL_SSL, SASL_PLAINTEXT or SSL; or "
                "PLAINTEXT, if it is to be ignored"
            )


def _tls_part(given: Mapping[str, str]) -> ClientSecurity:
    settings = dict(given)
    if "ssl.ca.location" in settings:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": settings["ssl.ca.location"]}
    elif "ssl.ca.pem" in settings:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": settings["ssl.ca.pem"]}
    if "ssl.certificate.pem" in settings and "ssl.key.pem" in settings:
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": settings["ssl.certificate.pem"],
            "ssl.keystore.key": settings["ssl.key.pem"],
        }
    algorithm = settings.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in ("https", "none", ""):
        raise CredentialsError(
            f"ssl.endpoint.identification.algorithm may be https or none, and not {algorithm}"
        )
    settings["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    certificate, key = settings.get("ssl.certificate.location"), settings.get("ssl.key.location")
    if certificate is None and key is not None:
        raise CredentialsError("ssl.key.location is set, but ssl.certificate.location is not")
    return ClientSecurity(
        tls=tls_options(settings.get),
        certificate_file=certificate,
        key_file=key or certificate,
        checks_certificate=settings.get("enable.ssl.certificate.verification", "true").lower() != "false",
    )


def _sasl_part(protocol: str, given: Mapping[str, str]) -> SaslOptions:
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms"))
    jaas = given.get("sasl.jaas.config")
    entry = None if jaas is None else jaas_entry(jaas)
    options = {} if entry is None else dict(entry.options)
    for name in ("username", "password"):
        if f"sasl.{name}" in given:
            options[name] = given[f"sasl.{name}"]
    if mechanism is None:
        mechanism = _meant(protocol, "" if entry is None else entry.module, options)
    mechanism = mechanism.strip().upper()
    if mechanism not in MECHANISMS:
        raise CredentialsError(f"sasl.mechanism is {mechanism}; it may be {', '.join(MECHANISMS)}")
    if mechanism.startswith(("PLAIN", "SCRAM")) and ("username" not in options or "password" not in options):
        raise CredentialsError(
            f"security.protocol is {protocol}: name the user in sasl.username and sasl.password, or in "
            'sasl.jaas.config as username="..." and password="..."'
        )
    settings = {name: value for name, value in given.items() if name.startswith(_OF_MECHANISMS)}
    return SaslOptions(mechanism, "" if entry is None else entry.module, options, settings)


def _meant(protocol: str, module: str, options: Mapping[str, str]) -> str:
    """The mechanism where none is named. Java's clients and librdkafka take GSSAPI, and fail if a password is
    given."""
    if "username" not in options:
        return DEFAULT_MECHANISM
    if "Scram" in module:
        raise CredentialsError(
            f"security.protocol is {protocol}, but sasl.mechanism is not set: name SCRAM-SHA-256 or "
            "SCRAM-SHA-512, as the broker offers"
        )
    return "PLAIN"


Get = Callable[[str], object]


def broker_security(protocol: str, mechanism: str, get: Get) -> ClientSecurity:
    """How a broker connects to the others: `protocol` is that of their listener, `get` gives the effective
    value of a setting of that listener by its full name (`ssl.keystore.location`, `sasl.jaas.config`).
    CredentialsError.
    """
    tls = tls_options(get) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return ClientSecurity(protocol, tls)
    jaas = get("sasl.jaas.config")
    entry = None if not jaas else jaas_entry(str(jaas))
    settings = {
        name: str(value) for name in _MECHANISM_SETTINGS if (value := get(name)) is not None and value != ""
    }
    options = {} if entry is None else entry.options
    sasl = SaslOptions(mechanism, "" if entry is None else entry.module, options, settings)
    return ClientSecurity(protocol, tls, sasl=sasl)


_MECHANISM_SETTINGS = (
    "sasl.kerberos.service.name",
    "sasl.kerberos.kinit.cmd",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.login.retry.backoff.max.ms",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.login.refresh.window.factor",
    *(
        f"sasl.oauthbearer.assertion.{name}"
        for name in (
            "file",
            "private.key.file",
            "private.key.passphrase",
            "algorithm",
            "template.file",
            "claim.aud",
            "claim.iss",
            "claim.sub",
            "claim.exp.seconds",
            "claim.nbf.seconds",
            "claim.jti.include",
        )
    ),
)
