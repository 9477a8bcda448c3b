"""The cluster as the console reaches it: requests in threads, what is known of it, records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.client.admin.layout import Place
from moldau.client.admin.problem import KafkaProblem
from moldau.client.cluster import Cluster
from moldau.client.offsets import EARLIEST, LATEST
from moldau.common.protocol.errors import ErrorCode
from moldau.services.console.facts.broker_health import BrokerHealth
from moldau.services.console.facts.collector import Facts
from moldau.services.console.facts.snapshot import Ends, TopicFacts
from moldau.services.console.messages.decoding import BySchema, Headers
from moldau.services.console.settings import ConsoleConfiguration
from moldau.services.kafka.admin_threads import KafkaAdmin
from moldau.services.kafka.reading import Readers

if TYPE_CHECKING:
    from moldau.schemas.registry_client import RegistryClient

T = TypeVar("T")
WHO: ContextVar[str] = ContextVar("console_who", default="")
"""Who makes the change that is under way."""
WATCHING_MS = "4000"
"""A broker that is gone holds up what is asked in the background so long: its partitions have new leaders by
then, which the next round learns of."""
_CLIENT = {"client.id": "moldau-console", "group.id": "moldau-console"}


class ClusterAccess:
    """One cluster."""

    def __init__(self, configuration: ConsoleConfiguration) -> None:
        """Connects to nothing yet. ClientError, CredentialsError: settings are wrong."""
        settings = configuration.settings
        client = {**_CLIENT, **configuration.client()}
        self.bootstrap_servers = settings.bootstrap_servers
        self._admin = KafkaAdmin(settings.bootstrap_servers, client)
        watching = {"default.api.timeout.ms": WATCHING_MS, **client}
        self._watching = KafkaAdmin(settings.bootstrap_servers, watching, threads=1)
        self.readers = Readers(client, settings.moldau_console_readers_max)
        self.facts = Facts(
            self._watching,
            BrokerHealth(settings.moldau_console_health_urls),
            settings.moldau_console_refresh_ms / 1000,
        )
        self.by_schema: BySchema | None = None
        self._registry: RegistryClient | None = None
        registry = configuration.registry()
        if registry:
            self._registry, self.by_schema = _schema_decoder(registry)

    async def call(self, work: Callable[[Cluster], T]) -> T:
        """See KafkaAdmin.call."""
        return await self._admin.call(work)

    def who(self) -> str:
        """Who makes the change that is under way."""
        return WHO.get()

    async def topic(self, name: str) -> TopicFacts:
        """A topic; one that was created a moment ago is looked for again. KafkaProblem: there is none."""
        found = (await self.facts.snapshot()).topics.get(name)
        if found is None:
            await self.facts.looked_for()
            found = (await self.facts.snapshot()).topics.get(name)
        if found is None:
            raise KafkaProblem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name}.")
        return found

    async def ends(self, topic: TopicFacts, partition: int | None = None) -> dict[int, Ends]:
        """The first and the end offset of each partition that has a leader, asked for now."""
        places: list[Place] = [
            (topic.name, each.partition_id)
            for each in topic.partitions
            if each.leader >= 0 and partition in (None, each.partition_id)
        ]
        if not places:
            return {}

        def ask(cluster: Cluster) -> tuple[Mapping[Place, int], Mapping[Place, int]]:
            starts = cluster.offsets(dict.fromkeys(places, EARLIEST))
            return starts, cluster.offsets(dict.fromkeys(places, LATEST), read_committed=True)

        starts, ends = await self.call(ask)
        return {index: Ends(starts[_, index], max(ends[_, index], starts[_, index])) for _, index in places}

    async def at_moment(self, topic: str, partitions: Mapping[int, Ends], moment_ms: int) -> dict[int, int]:
        """The offset of the first record at or after a moment, by partition; -1: none."""
        wanted = {(topic, index): max(0, moment_ms) for index in partitions}
        found = await self.call(lambda cluster: cluster.offsets(wanted))
        return {index: offset for (_, index), offset in found.items()}

    def start(self) -> None:
        """Begin to look at the cluster."""
        self.facts.start()

    async def close(self) -> None:
        """End."""
        await self.facts.close()
        await self.readers.close()
        if self._registry is not None:
            self._registry.close()
        self._admin.close()
        self._watching.close()


def _schema_decoder(settings: Mapping[str, str]) -> tuple[RegistryClient, BySchema]:
    from moldau.schemas import wire
    from moldau.schemas.registry_client import RegistryClient, RegistryError
    from moldau.schemas.serde import SerdeError
    from moldau.schemas.serde.records import RecordReader

    client = RegistryClient(settings)
    reader = RecordReader(client.by_id_or_guid)

    def decode(data: bytes, is_key: bool, headers: Headers) -> tuple[Any, str] | None:
        try:
            wire.unpack_record(data, headers, is_key)
        except wire.WireError:
            return None
        try:
            found = reader.read(data, is_key, headers)
        except (SerdeError, RegistryError) as problem:
            raise ValueError(str(problem)) from None
        return found.value, f"{found.parsed.schema_type} {found.schema}"

    return client, decode
