"""A client's settings: what the caller gave, what the kit sets, and what only the kit may set.

`config` holds librdkafka's names, or Java's for what concerns TLS and SASL (`sasl.jaas.config`, key
stores); most programs need `bootstrap_servers` alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from moldau.common.core.unreadable import advice
from moldau.kit.errors import BadCall

log = logging.getLogger("moldau.kit")
client_log = logging.getLogger("moldau.kit.librdkafka")

Config = Mapping[str, Any]


def client_config(
    bootstrap_servers: str | None, config: Config | None, owned: Mapping[str, str], **own: Any
) -> dict[str, Any]:
    """The settings of a client; `owned` are settings that the caller must not give, each with the reason.

    `own` are the kit's (underscores for dots); they override the caller's. Raises BadCall.
    """
    given = _translated(config or {})
    for name, reason in owned.items():
        if name in given:
            raise BadCall(f"config has {name!r}, which is not yours to set here: {reason}")
    if bootstrap_servers is not None:
        given["bootstrap.servers"] = bootstrap_servers
    if not given.get("bootstrap.servers"):
        raise BadCall("no broker is named: pass bootstrap_servers='HOST:9092'")
    given.update({name.replace("_", "."): value for name, value in own.items()})
    return given


def _translated(config: Config) -> dict[str, Any]:
    """The settings with Java's names for TLS and SASL replaced by librdkafka's; raises BadCall."""
    texts = {name: value for name, value in config.items() if isinstance(value, str)}
    if not any(name.startswith(("ssl.", "sasl.")) for name in texts):
        return dict(config)
    from moldau.common.credentials.client.librdkafka import for_librdkafka
    from moldau.common.credentials.errors import CredentialsError

    try:
        return {name: value for name, value in config.items() if name not in texts} | for_librdkafka(texts)
    except CredentialsError as problem:
        raise BadCall(str(problem)) from None


def topic_names(topics: str | Iterable[str]) -> list[str]:
    """One name or several as a list; raises BadCall."""
    names = [topics] if isinstance(topics, str) else list(topics)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise BadCall(f"topics={topics!r}: give the name of a topic, or a list of names")
    return names


def positive(value: float, name: str) -> float:
    """The value if it is above zero; raises BadCall."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise BadCall(f"{name}={value!r} must be a number above 0")
    return value


def kafka_error(error: BaseException) -> KafkaError | None:
    """The client's error inside an exception."""
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return error.args[0]
    return None


def unreadable(record: Message, error: KafkaError) -> str:
    """What to tell of a batch that cannot be read, which the client reports instead of its records."""
    place = str(record.topic()), int(record.partition() or 0), int(record.offset() or 0)
    return f"{sentence(error)}; {advice(*place)}"


def sentence(error: object) -> str:
    """An error of the client as text, without the numbers that it wraps around it."""
    if isinstance(error, BaseException):
        found = kafka_error(error)
        error = found if found is not None else error
    if isinstance(error, KafkaError):
        return f"{error.str()} ({error.name()})"
    return str(error) or type(error).__name__
