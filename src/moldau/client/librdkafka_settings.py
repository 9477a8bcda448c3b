"""A client's settings as a Java program has them, for librdkafka.

Logins and stores are translated by credentials/client/librdkafka.py. Of the rest, some names differ, and some
mean something in Java only: those have no effect, as an unknown setting has none in Java, and are logged.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from moldau.common.credentials.client.librdkafka import for_librdkafka

log = logging.getLogger("moldau.client")

_RENAMED = {
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "partitioner.ignore.keys": "",
    "buffer.memory": "",
    "max.block.ms": "",
    "max.poll.records": "",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
}
"""Java's name -> librdkafka's; "" for what the caller does in another way."""
_OFFSET_RESETS = {"none": "error"}
_UNKNOWN = 'No such configuration property: "'

ClientT = TypeVar("ClientT")


def client_settings(given: Mapping[str, str], own: Mapping[str, Any]) -> dict[str, Any]:
    """The settings under librdkafka's names; `own` are the caller's defaults, which the file's win over.
    CredentialsError: stores or a login that cannot be used."""
    translated = for_librdkafka(given)
    found: dict[str, Any] = dict(own)
    for name, value in translated.items():
        target = _RENAMED.get(name, name)
        if not target or name.endswith((".serializer", ".deserializer")):
            continue
        found[target] = value
    reset = found.get("auto.offset.reset")
    if reset is not None:
        found["auto.offset.reset"] = _OFFSET_RESETS.get(reset, reset)
    return found


def create(make: Callable[[dict[str, Any]], ClientT], settings: dict[str, Any]) -> ClientT:
    """A client; settings that librdkafka does not know are left out. KafkaException: a value is wrong."""
    while True:
        try:
            return make(settings)
        except KafkaException as refused:
            name = _unknown(refused)
            if name not in settings:
                raise
            log.info("the client setting %s is Java's only and has no effect", name)
            settings = {each: value for each, value in settings.items() if each != name}


def _unknown(refused: KafkaException) -> str | None:
    error = refused.args[0]
    if not isinstance(error, KafkaError) or error.code() != KafkaError._INVALID_ARG:
        return None
    _, found, rest = error.str().partition(_UNKNOWN)
    return rest.partition('"')[0] if found else None
