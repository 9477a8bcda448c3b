"""Java's client settings as librdkafka knows them.

Most have the same name in both. Translated are the others that articles set; a setting that librdkafka lacks
and that changes nothing of what is read or written (Java's buffers) is left out with a note on standard
error. Those of security are translated in credentials/client/librdkafka.py.
"""

from __future__ import annotations

import os
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


def translate(java: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's settings for Java's. ToolError for stores that cannot be read, and for a login that
    librdkafka cannot make.
    """
    from moldau.credentials.client.librdkafka import for_librdkafka
    from moldau.credentials.errors import CredentialsError
    from moldau.credentials.login_file import with_client_login

    try:
        secured = for_librdkafka(with_client_login(java, os.environ))
    except CredentialsError as problem:
        raise ToolError(str(problem)) from None
    found: dict[str, str] = {}
    for name, value in secured.items():
        if name in WITHOUT_EFFECT:
            print(f"{name} has no effect here: it sets Java's client", file=sys.stderr)
        elif name == "auto.offset.reset" and value == "none":
            found[name] = "error"
        else:
            found[RENAMED.get(name, name)] = value
    return found
