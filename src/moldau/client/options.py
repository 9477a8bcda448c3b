"""The client settings we support, under the names of Java's client and librdkafka.

Spark's options carry them with the prefix `kafka.`, which is accepted. Those of encryption and authentication
are read in credentials/client/options.py, and an unsupported one is refused. Any other unknown one is ignored
with a warning, once a process. Settings that another part handles (a producer's) are passed in `elsewhere`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from moldau.client.errors import OptionError
from moldau.common.credentials.client.options import (
    PLAINTEXT,
    ClientSecurity,
    client_security,
    is_security_setting,
)
from moldau.common.credentials.errors import CredentialsError

_warned: set[str] = set()


@dataclass(frozen=True)
class ClientOptions:
    """Settings of one client; plain values, so that they can be pickled for executors."""

    client_id: str = "moldau-client"
    request_timeout_seconds: float = 30.0
    connect_timeout_seconds: float = 10.0
    api_timeout_seconds: float = 300.0
    """For how long an operation is tried again while the cluster does not answer as it should."""
    backoff_seconds: float = 0.1
    backoff_seconds_max: float = 1.0
    fetch_bytes: int = 4 * 1024 * 1024
    fetch_wait_ms: int = 500
    check_crcs: bool = True
    security: ClientSecurity = PLAINTEXT


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
    values["security"] = _security(given)
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
    "default.api.timeout.ms": ("api_timeout_seconds", 1000.0),
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


def _security(given: dict[str, str]) -> ClientSecurity:
    """Take the settings of encryption and authentication out of `given`."""
    theirs = {name: given.pop(name) for name in list(given) if is_security_setting(name)}
    try:
        return client_security(theirs)
    except CredentialsError as error:
        words = str(error).replace("without security.protocol", "without kafka.security.protocol")
        named = words.startswith(("ssl.", "sasl.", "security."))
        raise OptionError(f"kafka.{words}" if named else words) from None
