"""Writes a flow's micro-batches to its topic, each once.

The sink of the format "moldau" makes a micro-batch one transaction, and skips one that is committed already.
The transactional id is the flow's name: whoever starts the same flow elsewhere, even with other checkpoints,
fences the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.streams.app import App
    from moldau.streams.flow import Flow, Output
    from moldau.streams.places import WriteBatch


def topic_writer(
    app: App, flow: Flow, output: Output, pinned_schemas: Mapping[str, str] | None = None
) -> WriteBatch:
    """The writer of the flow's micro-batches; with schemas that are known, the registry is not asked."""
    from pyspark_moldau.micro_batches import micro_batch_writer

    return micro_batch_writer({**written_options(app, flow, output), **(pinned_schemas or {})})


def written_options(app: App, flow: Flow, output: Output) -> dict[str, str]:
    """The options for writing a flow's topic; the app's own, without those of consumers."""
    from moldau.streams.places import kafka_name
    from moldau.streams.registered import writing_options
    from pyspark_moldau.schema_options import is_registry_option
    from pyspark_moldau.sink_options import CONSUMER_SETTINGS

    options = {
        **{
            name: value
            for name, value in app.options.items()
            if (kafka_name(name) and kafka_name(name) not in CONSUMER_SETTINGS)
            or is_registry_option(name.lower())
        },
        "kafka.bootstrap.servers": app.bootstrap_servers,
        "topic": output.topic,
        "delivery": app.delivery,
        **writing_options(app, output),
    }
    if app.delivery == "exactly-once":
        options["transactionalId"] = flow.group
    return options
