"""Creates the topics that flows write, before the first record.

A cluster's own auto-creation uses its defaults: one partition, limited retention. An output topic gets as
many partitions as the topics that the flow reads (so equal keys stay in equal partitions), and for a table
cleanup.policy=compact, which keeps the latest row of every key. An existing topic is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moldau.streams.errors import StreamsError

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster as Client
    from moldau.streams.app import App
    from moldau.streams.checkpoints import Owner
    from moldau.streams.flow import Output

TIMEOUT_SECONDS = 15.0
TOPIC_RESOURCE = 2


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
        from moldau.client.errors import ClientError, ClusterTimeout

        try:
            partitions = self._client.topics()
            return self._metadata().cluster_id or "", partitions
        except ClusterTimeout as failure:
            raise StreamsError(
                f"no broker answers at {self._servers} ({failure.__cause__ or failure}): start one with "
                "`moldau serve`, or name one with --bootstrap-server or MOLDAU_BOOTSTRAP"
            ) from None
        except ClientError as failure:
            raise StreamsError(str(failure)) from None

    def _metadata(self) -> Any:
        from moldau.common.protocol.messages.metadata import MetadataRequest

        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        return self._client.persist("look at the cluster", lambda: self._client.any_broker().ask(request))

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
        config = {**({"cleanup.policy": "compact"} if output.is_table else {}), **output.config}
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
        """Ask the controller for a topic; False if it was created meanwhile."""
        from moldau.client.errors import RequestRefused, check
        from moldau.common.protocol.errors import ErrorCode
        from moldau.common.protocol.messages.create_topics import (
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
        )

        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=-1,
            configs=[CreatableTopicConfig(name=name, value=str(value)) for name, value in config.items()],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=int(TIMEOUT_SECONDS * 1000))
        controller = self._client.broker(self._metadata().controller_id)
        (answer,) = controller.ask(request).topics
        if answer.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            return False
        try:
            check(answer.error_code, f"make topic {topic}")
        except RequestRefused as refused:
            raise RequestRefused(answer.error_message or str(refused), refused.error_code) from None
        return True


def topic_setting(cluster: Client, topic: str, name: str) -> str | None:
    """A topic's setting; None if the cluster does not report it."""
    from moldau.client.errors import ClientError, Retriable
    from moldau.common.protocol.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )

    asked = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=[name]
    )
    try:
        (answer,) = cluster.any_broker().ask(DescribeConfigsRequest(resources=[asked])).results
    except (ClientError, Retriable, OSError):
        return None
    return next((each.value for each in answer.configs if each.name == name), None)


def topics_read(owner: Owner) -> set[str]:
    """All topics that a flow reads."""
    return {*owner.streams, *owner.tables}
