"""Topics that flows write: made if they are not there, before the first record.

Left to itself a cluster makes a topic on first use with its own defaults: one partition, records that
expire. What a flow writes deserves better: as many partitions as the topics that it reads (so that keys
stay beside each other), and for a table cleanup.policy=compact, which keeps the latest row of every key for
ever. A topic that exists is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moldau.streams.errors import StreamsError

if TYPE_CHECKING:
    from moldau.streams.app import App
    from moldau.streams.checkpoints import Owner
    from moldau.streams.flow import Output

TIMEOUT_SECONDS = 15.0


class Cluster:
    """The cluster as an app needs to know it before it starts."""

    def __init__(self, app: App) -> None:
        import logging

        from confluent_kafka.admin import AdminClient

        quiet = logging.getLogger("moldau.streams.librdkafka")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        settings = {
            name.removeprefix("kafka."): value
            for name, value in app.options.items()
            if name.startswith("kafka.")
        }
        self._servers = app.bootstrap_servers
        base: dict[str, Any] = {"bootstrap.servers": app.bootstrap_servers, "client.id": "moldau-streams"}
        self._admin: Any = AdminClient({**base, **settings}, logger=quiet)
        self.cluster_id, self.partitions = self._look()

    def _look(self) -> tuple[str, dict[str, int]]:
        from confluent_kafka import KafkaException

        try:
            seen = self._admin.list_topics(timeout=TIMEOUT_SECONDS)
        except KafkaException as failure:
            raise StreamsError(
                f"no broker answers at {self._servers} ({failure.args[0].str()}): start one with "
                "`moldau serve`, or name one with --bootstrap-server or MOLDAU_BOOTSTRAP"
            ) from None
        counts = {name: len(each.partitions) for name, each in seen.topics.items() if each.error is None}
        return seen.cluster_id, counts

    def require(self, topics: Iterable[str], flow: str) -> None:
        """Raise the sentence for topics that a flow reads and that nobody has made."""
        missing = sorted(set(topics) - self.partitions.keys())
        if missing:
            raise StreamsError(
                f"flow {flow} reads {', '.join(missing)}, which does not exist on {self._servers}: "
                f"`moldau topics create {missing[0]}` makes it"
            )

    def make(self, output: Output, inputs: Iterable[str], say: Callable[[str], None]) -> None:
        """Make the topic of an output unless it is there."""
        if output.topic in self.partitions:
            if output.is_table and "compact" not in self._setting(output.topic, "cleanup.policy"):
                say(
                    f"topic {output.topic} is not compacted, so that rows of the table will expire: "
                    f"moldau topics alter {output.topic} -c cleanup.policy=compact"
                )
            return
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic

        count = output.partitions or max((self.partitions.get(name, 1) for name in inputs), default=1)
        config: Mapping[str, str] = {
            **({"cleanup.policy": "compact"} if output.is_table else {}),
            **output.config,
        }
        wanted = NewTopic(output.topic, num_partitions=count, replication_factor=-1, config=dict(config))
        try:
            self._admin.create_topics([wanted])[output.topic].result(timeout=TIMEOUT_SECONDS)
            say(f"made topic {output.topic}: {count} partitions{', compacted' if output.is_table else ''}")
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise StreamsError(f"topic {output.topic} cannot be made: {failure.args[0].str()}") from None
        self.partitions[output.topic] = count

    def _setting(self, topic: str, name: str) -> str:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource

        try:
            (answer,) = self._admin.describe_configs(
                [ConfigResource(ConfigResource.Type.TOPIC, topic)]
            ).values()
            return str(answer.result(timeout=TIMEOUT_SECONDS)[name].value)
        except (KafkaException, KeyError):
            return "compact"  # it may be so; this is only for a warning


def topics_read(owner: Owner) -> set[str]:
    """All topics that a flow reads."""
    return {*owner.streams, *owner.tables}
