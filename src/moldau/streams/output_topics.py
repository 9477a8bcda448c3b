"""Creates the topics that flows write, before the first record.

A cluster's own auto-creation uses its defaults: one partition, limited retention. An output topic gets as
many partitions as the topics that the flow reads (so equal keys stay in equal partitions), and for a table
cleanup.policy=compact, which keeps the latest row of every key. An existing topic is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from moldau.streams.errors import StreamsError

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster as Client
    from moldau.streams.app import App
    from moldau.streams.checkpoints import Owner
    from moldau.streams.flow import Output

TIMEOUT_SECONDS = 15.0


class Cluster:
    """The cluster, asked before an app starts; with the client and the settings that the flows use."""

    def __init__(self, app: App) -> None:
        from moldau.client.cluster import Cluster as Client
        from moldau.client.errors import ClientError
        from moldau.client.options import parse_options

        settings = {name: value for name, value in app.options.items() if name.lower().startswith("kafka.")}
        self._servers = app.bootstrap_servers
        try:
            # Those of producers mean nothing here; whoever writes judges them.
            options = parse_options(settings, [name.lower().removeprefix("kafka.") for name in settings])
            self._client = Client(app.bootstrap_servers, options, first_contact_seconds=TIMEOUT_SECONDS)
        except ClientError as failure:
            raise StreamsError(str(failure)) from None
        self.cluster_id, self.partitions = self._look()

    def _look(self) -> tuple[str, dict[str, int]]:
        from moldau.client.admin.topics import describe_cluster
        from moldau.client.errors import ClientError, ClusterTimeout

        try:
            partitions = self._client.topics()
            return describe_cluster(self._client).cluster_id, partitions
        except ClusterTimeout as failure:
            raise StreamsError(
                f"no broker answers at {self._servers} ({failure.__cause__ or failure}): start one with "
                "`moldau serve`, or name one with --bootstrap-server or MOLDAU_BOOTSTRAP"
            ) from None
        except ClientError as failure:
            raise StreamsError(str(failure)) from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def require(self, topics: Iterable[str], flow: str) -> None:
        """Raise for input topics that do not exist."""
        missing = sorted(set(topics) - self.partitions.keys())
        if missing:
            raise StreamsError(
                f"flow {flow} reads {', '.join(missing)}, which does not exist on {self._servers}: "
                f"`moldau topics create {missing[0]}` makes it"
            )

    def make(self, output: Output, inputs: Iterable[str], say: Callable[[str], None]) -> None:
        """Create the topic of an output unless it exists."""
        if output.topic in self.partitions:
            policy = topic_setting(self._client, output.topic, "cleanup.policy") if output.is_table else None
            if policy is not None and "compact" not in policy:
                say(
                    f"topic {output.topic} is not compacted, so that rows of the table will expire: "
                    f"moldau topics alter {output.topic} -c cleanup.policy=compact"
                )
            return
        from moldau.client.errors import ClientError

        count = output.partitions or max((self.partitions.get(name, 1) for name in inputs), default=1)
        config = {name: str(value) for name, value in output.config.items()}
        if output.is_table:
            config = {"cleanup.policy": "compact", **config}
        try:
            is_new = self._client.persist(
                f"make topic {output.topic}", lambda: self._create(output.topic, count, config)
            )
        except ClientError as failure:
            raise StreamsError(f"topic {output.topic} cannot be made: {failure}") from None
        if is_new:
            partitions = f"{count} partition{'' if count == 1 else 's'}"
            say(f"made topic {output.topic}: {partitions}{', compacted' if output.is_table else ''}")
        self.partitions[output.topic] = count

    def _create(self, topic: str, partitions: int, config: Mapping[str, str]) -> bool:
        """Create a topic; False if it was created meanwhile. Retriable."""
        from moldau.client.admin.problem import KafkaProblem
        from moldau.client.admin.topics import create_topic
        from moldau.client.errors import Retriable
        from moldau.common.protocol.errors import ErrorCode

        try:
            create_topic(self._client, topic, partitions=partitions, configs=config)
        except KafkaProblem as problem:
            if problem.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                return False
            if problem.retriable:
                raise Retriable(problem.words, problem.error_code) from None
            raise
        return True


def topic_setting(cluster: Client, topic: str, name: str) -> str | None:
    """A topic's setting; None if the cluster does not report it."""
    from moldau.client.admin.configs import TOPIC, describe_configs
    from moldau.client.errors import ClientError

    try:
        found = describe_configs(cluster, TOPIC, [topic], synonyms=False, keys=[name])[topic]
    except (ClientError, OSError):
        return None
    return next((each.value for each in found if each.name == name), None)


def topics_read(owner: Owner) -> set[str]:
    """All topics that a flow reads."""
    return {*owner.streams, *owner.tables}
