"""Java's client settings as librdkafka knows them.

Most have the same name in both. Translated are the others that articles set; a setting that librdkafka lacks
is left out with a note on standard error, as Java's client leaves out what it does not know. Those of
security are translated in credentials/client/librdkafka.py.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from moldau.tools.kafka.problems import ToolError

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
ELSEWHERE = frozenset({"exclude.internal.topics"})
"""Read by topic_subscription.py."""
ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
"""Kafka's classes that librdkafka has."""
_UNKNOWN = re.compile(r'No such configuration property: "(.*)"')
_END = "moldau.end"


def translate(java: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's settings for Java's. ToolError for stores that cannot be read, and for a login that
    librdkafka cannot make.
    """
    from moldau.common.credentials.client.librdkafka import for_librdkafka
    from moldau.common.credentials.errors import CredentialsError
    from moldau.common.credentials.login_file import with_client_login

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
        elif name == "partition.assignment.strategy":
            found[name] = ",".join(_assignor(each.strip()) for each in value.split(","))
        elif name not in ELSEWHERE:
            found[RENAMED.get(name, name)] = value
    for name in _unknown(found):
        print(f"{name} is no setting of this client: it has no effect", file=sys.stderr)
        del found[name]
    return found


def _assignor(name: str) -> str:
    """Return librdkafka's name of an assignor. ToolError for one that it lacks."""
    plain = name.rpartition(".")[2]
    if plain not in {**ASSIGNORS, **dict.fromkeys(ASSIGNORS.values())}:
        raise ToolError(f"{name} is not known here; there are {', '.join(ASSIGNORS)}")
    return ASSIGNORS.get(plain, plain)


def _unknown(settings: Mapping[str, str]) -> list[str]:
    """Return the names that librdkafka does not know. It tells of the first one, before it makes a client;
    _END is unknown in any case, so that none is made.
    """
    if not settings:
        return []
    from confluent_kafka import KafkaException, Producer

    found: list[str] = []
    for name, value in settings.items():
        try:
            Producer({name: value, _END: ""})
        except KafkaException as problem:
            refused = _UNKNOWN.match(problem.args[0].str())
            if refused is not None and refused[1] == name:
                found.append(name)
    return found
