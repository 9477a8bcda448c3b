"""All links of this broker, in step with the metadata: what it leads of a mirror topic is pulled; what it
leads of one that is being failed over is ended; the elected controller keeps links up (upkeep.py).
"""

import asyncio
import logging
from collections.abc import Iterator

from moldau.broker.metadata.image import EMPTY_IMAGE, Image
from moldau.broker.metadata.mirrors import MirrorLink, MirrorState, MirrorTopic
from moldau.broker.mirror.ending import end_partition
from moldau.broker.mirror.groups import GroupSync
from moldau.broker.mirror.parts import MirrorParts
from moldau.broker.mirror.puller import LinkPuller
from moldau.broker.mirror.upkeep import LinkUpkeep
from moldau.broker.monitor.sources import MirrorRow
from moldau.broker.replication.partition import Partition
from moldau.common.credentials.errors import CredentialsError
from moldau.common.settings.rows import SettingError

log = logging.getLogger("moldau.mirror")


class Mirroring:
    """Made with the first link; does nothing before `image_changed`."""

    def __init__(self, parts: MirrorParts) -> None:
        self.parts = parts
        self.pullers: dict[str, LinkPuller] = {}
        self.upkeeps: dict[str, LinkUpkeep] = {}
        self.groups: dict[str, GroupSync] = {}
        self._levels: dict[str, dict[tuple[str, int], float]] = {}  # of links whose settings changed
        self.unusable: dict[str, str] = {}
        """By link: why it cannot be used, which is tried again with each image."""
        self._endings: dict[Partition, asyncio.Task[None]] = {}
        self._seen = EMPTY_IMAGE
        self._held: dict[str, tuple[str, frozenset[int]]] = {}
        """What is pulled of each topic: over which link, which partitions."""
        self._waiting: set[str] = set()
        """Topics of which a partition should be led here, and is not, or was ended just now."""
        self._closed = False

    def image_changed(self, image: Image) -> None:
        """The metadata changed, and the partitions are in step with it. Only what changed is looked at: every
        topic of a large link changes the image several times while it is made.
        """
        seen = self._seen
        if self._closed or image.version < seen.version:
            return  # an older image comes later where its partitions took longer
        self._seen = image
        before = (seen.mirrors, seen.mirror_links, seen.topics)
        now = (image.mirrors, image.mirror_links, image.topics)
        same = all(old is new for old, new in zip(before, now, strict=True))
        if same and seen.controller_id == image.controller_id and not self._waiting:
            return
        fresh = self._follow_links(image)
        for topic in [topic for topic in self._held if topic not in image.mirrors]:
            self._follow(image, topic, None)
        self._waiting.intersection_update(image.mirrors)
        for topic, mirror in image.mirrors.items():
            if (
                mirror is not seen.mirrors.get(topic)
                or image.topics.get(topic) is not seen.topics.get(topic)
                or mirror.link in fresh
                or topic in self._waiting
            ):
                self._follow(image, topic, mirror)

    def _follow(self, image: Image, topic: str, mirror: MirrorTopic | None) -> None:
        """Pull, end or leave alone what this broker leads of a topic."""
        self._waiting.discard(topic)
        puller = self.pullers.get(mirror.link) if mirror is not None and mirror.is_pulled() else None
        wanted: dict[int, Partition] = {}
        if puller is not None:
            wanted = {each.index: each for each in self._led(image, topic)}
        elif mirror is not None and mirror.state is MirrorState.FAILING_OVER:
            for partition in self._led(image, topic):
                if partition.index in mirror.left:
                    self._end(partition)
        link, indexes = self._held.pop(topic, ("", frozenset()))
        known = self.pullers.get(link)
        if known is not None:
            for index in indexes:
                if known is not puller or index not in wanted:
                    known.stop(topic, index)
        if puller is not None and mirror is not None and wanted:
            self._held[topic] = (mirror.link, frozenset(wanted))
            for partition in wanted.values():
                puller.pull(partition, mirror)

    def _led(self, image: Image, topic: str) -> Iterator[Partition]:
        """What is led here; of what should be and is not yet, the next image finds out."""
        state = image.topics.get(topic)
        for index, each in enumerate(() if state is None else state.partitions):
            if each.leader == self.parts.node_id:
                partition = self.parts.replicas.partition(topic, index)
                if partition is not None and partition.leads and partition.is_mirror:
                    yield partition
                else:
                    self._waiting.add(topic)

    def _follow_links(self, image: Image) -> set[str]:
        """The links whose pullers are new."""
        fresh = set()
        for name in [
            name for name in self.pullers if self.pullers[name].link != image.mirror_links.get(name)
        ]:
            puller = self.pullers.pop(name)
            self._levels[name] = puller.last_levels()
            puller.close()
            self.groups.pop(name).close()
        leads = image.controller_id == self.parts.node_id
        for name in list(self.upkeeps):
            if not leads or self.upkeeps[name].link != image.mirror_links.get(name):
                self.upkeeps.pop(name).close()
        for name, link in image.mirror_links.items():
            if name not in self.pullers:
                self._make(link)
                if name in self.pullers:
                    fresh.add(name)
            if leads and name in self.pullers and name not in self.upkeeps:
                self.upkeeps[name] = upkeep = LinkUpkeep(self.parts, link)
                upkeep.begin()
        return fresh

    # For monitoring

    def rows(self) -> Iterator[MirrorRow]:
        """The partitions that are pulled here."""
        now_ms = self.parts.clock.monotonic_ms()
        for name, puller in self.pullers.items():
            for each in puller.all():
                machine, partition = each.machine, each.partition
                yield MirrorRow(
                    name,
                    partition.topic,
                    partition.index,
                    machine.lost_seconds(now_ms),
                    machine.records_behind(partition.log.log_end_offset),
                    machine.lost,
                    machine.missed,
                    machine.problem,
                )

    def bytes_pulled(self) -> dict[str, int]:
        """How much, by link."""
        return {name: puller.bytes_pulled for name, puller in self.pullers.items()}

    def _make(self, link: MirrorLink) -> None:
        try:
            groups = GroupSync(self.parts, link)
            puller = self.pullers[link.name] = LinkPuller(self.parts, link)
            puller.levels = self._levels.pop(link.name, {})
            self.groups[link.name] = groups
            groups.begin()
        except (CredentialsError, SettingError, OSError) as error:
            if self.unusable.get(link.name) != str(error):
                log.error("the link %s cannot be used: %s", link.name, error)
            self.unusable[link.name] = str(error)
        else:
            self.unusable.pop(link.name, None)

    def _end(self, partition: Partition) -> None:
        if partition in self._endings:
            self._waiting.add(partition.topic)  # that task may be at its end
            return
        task = self.parts.host.loop.create_task(end_partition(self.parts, partition))
        self._endings[partition] = task
        task.add_done_callback(lambda _: self._endings.pop(partition, None))

    def close(self) -> None:
        """Stop all."""
        self._closed = True
        for puller in self.pullers.values():
            puller.close()
        for upkeep in self.upkeeps.values():
            upkeep.close()
        for groups in self.groups.values():
            groups.close()
        for task in list(self._endings.values()):
            task.cancel()
