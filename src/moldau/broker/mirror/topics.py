"""Which topics a link mirrors, and making them here: for who creates a link, and for its upkeep."""

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from moldau.broker.controller.decision import Outcome
from moldau.broker.controller.mirrors import add_mirror
from moldau.broker.controller.topics import NewTopic
from moldau.broker.metadata.image import INTERNAL_TOPICS
from moldau.broker.metadata.mirrors import MirrorTopic
from moldau.broker.mirror.link_settings import matches
from moldau.broker.mirror.parts import MirrorParts
from moldau.broker.mirror.source import SourceCluster, SourceTopic
from moldau.broker.peers.peers import PeerError, Unsupported
from moldau.common.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from moldau.common.settings.mirror import MirrorSettings
from moldau.common.settings.topic import TopicSettings

_TOPIC = 2
_SET_ON_TOPIC = 1
_AT_ONCE = 200


class Found(NamedTuple):
    """A topic of the source that a link mirrors, and its name here."""

    name: str
    source: SourceTopic


def wanted_topics(
    topics: Mapping[str, SourceTopic], settings: MirrorSettings
) -> Generator[None, None, list[Found]]:
    """Those that the link mirrors, by name, in steps: a source may have very many. A name that stands in
    `topics` itself is never excluded.
    """
    found = []
    for name, topic in sorted(topics.items()):
        yield
        if topic.error_code or topic.is_internal or name in INTERNAL_TOPICS:
            continue
        if name in settings.topics or matches(name, settings.topics, settings.topics_exclude):
            found.append(Found(settings.topic_prefix + name, topic))
    return found


async def source_configs(
    source: SourceCluster, names: Sequence[str], settings: MirrorSettings
) -> dict[str, dict[str, str]]:
    """What is set on these topics there, of what follows and what Moldau knows; nothing is known of a source
    that does not tell where a setting comes from (before 1.1). PeerError.
    """
    found: dict[str, dict[str, str]] = {}
    for start in range(0, len(names), _AT_ONCE):
        resources = [
            DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=None)
            for name in names[start : start + _AT_ONCE]
        ]
        try:
            answer: DescribeConfigsResponse = await source.ask_any(
                DescribeConfigsRequest(resources=resources)
            )
        except Unsupported:
            return {}
        for row in answer.results:
            if row.error_code:
                continue
            found[row.resource_name] = {
                each.name: each.value
                for each in row.configs
                if each.config_source == _SET_ON_TOPIC
                and each.value is not None
                and each.name in TopicSettings.ROWS
                and not matches(each.name, settings.config_properties_exclude)
            }
    return found


async def mirror_topics(
    parts: MirrorParts,
    source: SourceCluster,
    link: str,
    settings: MirrorSettings,
    found: Sequence[Found],
    *,
    adopt: bool = False,
) -> list[tuple[str, Outcome]]:
    """Mirror these topics; what became of each. What is mirrored already stays so."""
    configs: dict[str, dict[str, str]] = {}
    if settings.sync_topic_configs_enabled and found:
        try:
            configs = await source_configs(source, [each.source.name for each in found], settings)
        except PeerError:
            configs = {}  # they follow with the next upkeep
    outcomes = []
    for each in found:
        new = NewTopic(
            each.name,
            len(each.source.partitions),
            settings.replication_factor,
            configs=dict(configs.get(each.source.name, {})),
        )
        mirror = MirrorTopic(link, each.source.name, each.source.topic_id)
        controller = parts.controller
        decide = partial(
            add_mirror,
            new=new,
            mirror=mirror,
            settings=controller.settings,
            source=parts.host.random,
            adopt=adopt,
        )
        outcomes.append((each.name, await controller.decide(decide, lambda failure: failure)))
    return outcomes
