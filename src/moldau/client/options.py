"""The client settings we support, under the names of Java's client and librdkafka.

Spark's options carry them with the prefix `kafka.`, which is accepted. An unsupported setting of encryption
or authentication is refused; any other unknown one is ignored with a warning, once a process. Settings that
another part handles (a producer's) are passed in `elsewhere`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from moldau.client.errors import OptionError

_JAAS = re.compile(r"^\s*(?:\S+\.)?PlainLoginModule\s+required\b(?P<rest>.*?);?\s*$", re.DOTALL)
_JAAS_PAIR = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")
_MEANS_SECURITY = re.compile(r"sasl\.(username|password|jaas\.config|mechanisms?)$|ssl\..*location$")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_warned: set[str] = set()


@dataclass(frozen=True)
class ClientOptions:
    """Settings of one client; plain values, so that they can be pickled for executors."""

    client_id: str = "moldau-client"
    request_timeout_seconds: float = 30.0
    connect_timeout_seconds: float = 10.0
    patience_seconds: float = 300.0
    """For how long an operation is tried again while the cluster does not answer as it should."""
    backoff_seconds: float = 0.1
    backoff_seconds_max: float = 1.0
    fetch_bytes: int = 4 * 1024 * 1024
    fetch_wait_ms: int = 500
    check_crcs: bool = True
    tls: bool = False
    tls_ca_file: str | None = None
    tls_certificate_file: str | None = None
    tls_key_file: str | None = None
    tls_key_password: str | None = field(default=None, repr=False)
    tls_check_host_name: bool = True
    sasl_username: str | None = None
    """SASL/PLAIN is used if and only if there is a user name."""
    sasl_password: str = field(default="", repr=False)


def parse_options(options: Mapping[str, str], elsewhere: Collection[str] = ()) -> ClientOptions:
    """The settings in `options`. OptionError for one that is not supported."""
    given = {name.lower().removeprefix("kafka."): str(value) for name, value in options.items()}
    values: dict[str, object] = {}
    for name, (field_name, factor) in _NUMBERS.items():
        if name in given:
            values[field_name] = _number(name, given.pop(name), factor)
    if "client.id" in given:
        values["client_id"] = given.pop("client.id")
    if "check.crcs" in given:
        values["check_crcs"] = _flag("check.crcs", given.pop("check.crcs"))
    values |= _security(given)
    warn_without_effect(given.keys() - {"bootstrap.servers"} - set(elsewhere))
    return ClientOptions(**values)  # type: ignore[arg-type]


def warn_without_effect(names: Iterable[str], why: str = "in Moldau's client") -> None:
    """Warn of each setting, once a process, that it has no effect, although Kafka's clients support it."""
    for name in sorted(set(names) - _warned):
        _warned.add(name)
        warnings.warn(f"the option kafka.{name} has no effect {why}", stacklevel=3)


# name -> field, and by what to divide (milliseconds become seconds)
_NUMBERS = {
    "request.timeout.ms": ("request_timeout_seconds", 1000.0),
    "socket.timeout.ms": ("request_timeout_seconds", 1000.0),
    "socket.connection.setup.timeout.ms": ("connect_timeout_seconds", 1000.0),
    "default.api.timeout.ms": ("patience_seconds", 1000.0),
    "retry.backoff.ms": ("backoff_seconds", 1000.0),
    "reconnect.backoff.ms": ("backoff_seconds", 1000.0),
    "retry.backoff.max.ms": ("backoff_seconds_max", 1000.0),
    "reconnect.backoff.max.ms": ("backoff_seconds_max", 1000.0),
    "fetch.max.wait.ms": ("fetch_wait_ms", None),
    "fetch.wait.max.ms": ("fetch_wait_ms", None),
    "fetch.max.bytes": ("fetch_bytes", None),
    "max.partition.fetch.bytes": ("fetch_bytes", None),
}


def _number(name: str, text: str, factor: float | None) -> float | int:
    try:
        number = int(text)
    except ValueError:
        raise OptionError(f"kafka.{name} must be a whole number, and not {text!r}") from None
    if not 0 <= number <= 2**31 - 1:
        raise OptionError(f"kafka.{name} must lie between 0 and {2**31 - 1}, and not be {number}")
    return number if factor is None else number / factor


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"kafka.{name} must be true or false, and not {text!r}")
    return text.lower() == "true"


def _security(given: dict[str, str]) -> dict[str, object]:
    """Take the settings of encryption and authentication out of `given`."""
    if "security.protocol" not in given:
        _refuse_security_without_protocol(given)
    protocol = given.pop("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise OptionError(f"kafka.security.protocol is {protocol!r}; it may be {', '.join(_PROTOCOLS)}")
    values: dict[str, object] = {"tls": protocol.endswith("SSL")}
    values |= _tls(given)
    mechanism = given.pop("sasl.mechanism", given.pop("sasl.mechanisms", "PLAIN")).upper()
    username, password = given.pop("sasl.username", None), given.pop("sasl.password", "")
    jaas = given.pop("sasl.jaas.config", None)
    for name in given:
        if name.startswith(("ssl.", "sasl.")):
            raise OptionError(f"kafka.{name} is a security setting that Moldau's client does not support")
    if not protocol.startswith("SASL"):
        return values
    if mechanism != "PLAIN":
        raise OptionError(f"kafka.sasl.mechanism is {mechanism}, but Moldau's client supports PLAIN only")
    if jaas is not None and username is None:
        username, password = _parse_jaas(jaas)
    if username is None:
        raise OptionError(
            f"kafka.security.protocol is {protocol}: name the user in kafka.sasl.username and "
            f"kafka.sasl.password, or in kafka.sasl.jaas.config"
        )
    return values | {"sasl_username": username, "sasl_password": password}


def _refuse_security_without_protocol(given: Mapping[str, str]) -> None:
    """Refuse TLS and SASL settings without security.protocol: the connection would be plaintext."""
    for name in given:
        if _MEANS_SECURITY.match(name):
            raise OptionError(
                f"kafka.{name} has no effect without kafka.security.protocol: set SASL_SSL, SASL_PLAINTEXT "
                "or SSL; or PLAINTEXT, if it is to be ignored"
            )


def _tls(given: dict[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for store in ("truststore", "keystore"):
        kind = given.pop(f"ssl.{store}.type", "JKS").upper()
        location = given.pop(f"ssl.{store}.location", None)
        if location is None:
            continue
        if kind != "PEM":
            raise OptionError(
                f"kafka.ssl.{store}.location names a {kind} file, and Moldau's client reads PEM only: "
                f"give it with kafka.ssl.{store}.type=PEM"
            )
        if store == "truststore":
            values["tls_ca_file"] = location
        else:
            values["tls_certificate_file"] = location
    for name, field_name in (
        ("ssl.ca.location", "tls_ca_file"),
        ("ssl.certificate.location", "tls_certificate_file"),
        ("ssl.key.location", "tls_key_file"),
        ("ssl.key.password", "tls_key_password"),
    ):
        if name in given:
            values[field_name] = given.pop(name)
    algorithm = given.pop("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("https", "", "none"):
        raise OptionError(
            f"kafka.ssl.endpoint.identification.algorithm may be https or none, and not {algorithm!r}"
        )
    values["tls_check_host_name"] = algorithm == "https"
    return values


def _parse_jaas(text: str) -> tuple[str, str]:
    found = _JAAS.match(text)
    pairs = _JAAS_PAIR.findall(found["rest"]) if found else []
    values = {name: re.sub(r"\\(.)", r"\1", double or single) or bare for name, double, single, bare in pairs}
    if "username" not in values or "password" not in values:
        raise OptionError(
            "kafka.sasl.jaas.config must read: org.apache.kafka.common.security.plain.PlainLoginModule "
            'required username="..." password="...";'
        )
    return values["username"], values["password"]
