"""A link's upkeep, at the elected controller: new topics and partitions of the source, and topics' settings.

Each round asks the source and decides on what differs; nothing is remembered between rounds, so that another
controller goes on where this one ended.
"""

import asyncio
import logging
from functools import partial

from moldau.broker.controller.configs import AlterResource, Operation
from moldau.broker.controller.partitions import MorePartitions, create_partitions
from moldau.broker.metadata.image import ResourceType
from moldau.broker.metadata.mirrors import MirrorLink
from moldau.broker.mirror.acls import acls_here, source_acls
from moldau.broker.mirror.link_settings import matches, mirror_settings
from moldau.broker.mirror.parts import MirrorParts
from moldau.broker.mirror.source import SourceCluster, SourceTopic
from moldau.broker.mirror.topics import Found, mirror_topics, source_configs, wanted_topics
from moldau.broker.peers.peers import PeerError

log = logging.getLogger("moldau.mirror")


class LinkUpkeep:
    """Keeps one link up until `close`."""

    def __init__(self, parts: MirrorParts, link: MirrorLink) -> None:
        """CredentialsError, SettingError."""
        self.link = link
        self.problem = ""
        self.refused: dict[str, str] = {}
        """Topics that match and cannot be mirrored, and why."""
        self._parts = parts
        self._settings = mirror_settings(link.settings)
        self._source = SourceCluster(parts, link.name, link.settings)
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def begin(self) -> None:
        """Begin."""
        self._task = self._parts.host.loop.create_task(self._run())

    def close(self) -> None:
        """End."""
        self._closed = True
        self._source.close()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while not self._closed:
            try:
                await self._round()
                self.problem = ""
            except PeerError as error:
                self.problem = f"the source cannot be asked: {error}"
            except Exception:
                log.exception("the upkeep of the link %s failed: this is a bug", self.link.name)
            await self._parts.pause(self._settings.refresh_topics_interval_seconds * 1000)

    async def _round(self) -> None:
        topics = await self._source.topics(None)
        found = await self._parts.lane.slices().run(wanted_topics(topics, self._settings))
        image = self._parts.image()
        new = [each for each in found if each.name not in image.mirrors]
        outcomes = await mirror_topics(self._parts, self._source, self.link.name, self._settings, new)
        refused = {name: outcome.message or "" for name, outcome in outcomes if outcome.failed}
        for name, reason in refused.items():
            if self.refused.get(name) != reason:
                log.warning("link %s: %s is not mirrored: %s", self.link.name, name, reason)
        self.refused = refused
        mine = [
            Found(name, topics[mirror.source])
            for name, mirror in self._parts.image().mirrors.items()
            if mirror.link == self.link.name and mirror.is_pulled() and mirror.source in topics
        ]
        await self._follow_partitions(mine)
        if self._settings.sync_topic_configs_enabled:
            await self._follow_configs(mine)
        if self._settings.sync_topic_acls_enabled and self._parts.has_rights:
            await self._follow_acls(mine)

    async def _follow_partitions(self, mine: list[Found]) -> None:
        image = self._parts.image()
        for name, source in mine:
            known = image.topics.get(name)
            if known is not None and _grew(source, len(known.partitions)):
                more = [MorePartitions(name, len(source.partitions))]
                decide = partial(
                    create_partitions, asked=more, source=self._parts.host.random, for_mirrors=True
                )
                await self._parts.controller.decide(decide, lambda failure: [("", failure)])

    async def _follow_configs(self, mine: list[Found]) -> None:
        wanted = await source_configs(self._source, [each.source.name for each in mine], self._settings)
        image = self._parts.image()
        changes = []
        slices = self._parts.lane.slices()
        for name, source in mine:
            if slices.spent():
                await slices.next_slice()
            there = wanted.get(source.name)
            if there is None:
                continue
            here = dict(image.configs.get((ResourceType.TOPIC, name), {}))
            operations: list[tuple[str, int, str | None]] = [
                (key, Operation.SET, value) for key, value in there.items() if here.get(key) != value
            ]
            operations += [
                (key, Operation.DELETE, None) for key in here if key not in there and self._follows(key)
            ]
            if operations:
                changes.append(AlterResource(ResourceType.TOPIC, name, operations))
        if changes:
            for resource, outcome in await self._parts.controller.alter_configs(changes):
                if outcome.failed:
                    text = "link %s: settings of %s do not follow: %s"
                    log.warning(text, self.link.name, resource.resource_name, outcome.message)

    async def _follow_acls(self, mine: list[Found]) -> None:
        local = {each.source.name: each.name for each in mine}
        known = self._parts.image().acls
        fresh = [acl for acl in acls_here(await source_acls(self._source), local) if acl not in known]
        if fresh:
            for acl, outcome in zip(fresh, await self._parts.controller.create_acls(fresh), strict=True):
                if outcome.failed:
                    text = "link %s: a right on %s does not follow: %s"
                    log.warning(text, self.link.name, acl.resource_name, outcome.message)

    def _follows(self, name: str) -> bool:
        return not matches(name, self._settings.config_properties_exclude)


def _grew(source: SourceTopic, count: int) -> bool:
    return len(source.partitions) > count and set(source.partitions) == set(range(len(source.partitions)))
