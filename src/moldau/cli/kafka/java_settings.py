"""Java's client settings as librdkafka knows them.

Most have the same name in both. Translated are the others that articles set; a setting that librdkafka lacks
and that changes nothing of what is read or written (Java's buffers) is left out with a note on standard
error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from moldau.cli.kafka.problems import ToolError

RENAMED = {
    "max.request.size": "message.max.bytes",
    "max.in.flight.requests.per.connection": "max.in.flight",
    "sasl.mechanism": "sasl.mechanisms",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
}
WITHOUT_EFFECT = frozenset(
    {
        "block.on.buffer.full",
        "buffer.memory",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "interceptor.classes",
        "key.deserializer",
        "key.serializer",
        "max.block.ms",
        "max.poll.records",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.class",
        "receive.buffer.bytes",
        "send.buffer.bytes",
        "value.deserializer",
        "value.serializer",
    }
)
_JAAS = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s"';]+))""")


def translate(java: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's settings for Java's. ToolError for stores that only Java can read."""
    found: dict[str, str] = {}
    for name, value in java.items():
        if name in WITHOUT_EFFECT:
            print(f"{name} has no effect here: it sets Java's client", file=sys.stderr)
        elif name == "sasl.jaas.config":
            found |= _credentials(value)
        elif name in ("ssl.truststore.location", "ssl.keystore.location"):
            found |= _store(name, value, java)
        elif name.startswith(("ssl.truststore.", "ssl.keystore.")):
            continue
        elif name == "auto.offset.reset" and value == "none":
            found[name] = "error"
        else:
            found[RENAMED.get(name, name)] = value
    return found


def _credentials(jaas: str) -> dict[str, str]:
    values = {name: double or single or bare for name, double, single, bare in _JAAS.findall(jaas)}
    if "username" not in values or "password" not in values:
        raise ToolError('sasl.jaas.config lacks username="..." or password="..."')
    return {"sasl.username": values["username"], "sasl.password": values["password"]}


def _store(name: str, path: str, java: Mapping[str, str]) -> dict[str, str]:
    store = name.split(".")[1]
    kind = java.get(f"ssl.{store}.type", "JKS").upper()
    if kind == "PKCS12" and store == "keystore":
        password = java.get("ssl.keystore.password", "")
        return {"ssl.keystore.location": path, "ssl.keystore.password": password}
    if kind != "PEM":
        raise ToolError(
            f"{name} names a {kind} file, which only Java reads: convert it to PEM, and set "
            f"ssl.{store}.type=PEM"
        )
    if store == "truststore":
        return {"ssl.ca.location": path}
    return {"ssl.certificate.location": path, "ssl.key.location": path}
