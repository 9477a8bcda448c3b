"""DescribeMirrors, version 0: links to other clusters, their topics, and how far the partitions are that this
broker leads (Moldau's own).

The client must have Describe on the cluster. Secrets of a link's settings are not in the answer.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.mirrors import MirrorLink, MirrorTopic
from moldau.broker.replication.partition import Partition
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.operations import Operation
from moldau.common.protocol.own.describe_mirrors import (
    DescribeMirrorsRequest,
    DescribeMirrorsResponse,
    LinkData,
    LinkSetting,
    MirrorGroupData,
    MirrorPartitionData,
    MirrorTopicData,
)

if TYPE_CHECKING:
    from moldau.broker.mirror.pulled import Pulled
    from moldau.broker.mirror.puller import LinkPuller


@handles(DescribeMirrorsRequest)
def describe_mirrors(
    broker: Broker, context: RequestContext, request: DescribeMirrorsRequest
) -> Generator[None, None, DescribeMirrorsResponse]:
    if not may_on_cluster(broker, context.session, Operation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeMirrorsResponse(error_code=code, error_message=code.message)
    image = broker.metadata.image
    names = dict.fromkeys(request.links if request.links is not None else image.mirror_links)
    for name in names:
        if name not in image.mirror_links:
            return DescribeMirrorsResponse(
                error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=f"there is no link {name}"
            )
    links = []
    for name in names:
        links.append((yield from _link(broker, image, image.mirror_links[name])))
    return DescribeMirrorsResponse(links=links)


def _link(broker: Broker, image: Image, link: MirrorLink) -> Generator[None, None, LinkData]:
    from moldau.broker.mirror.link_settings import is_secret

    mirroring = broker.mirroring
    puller, upkeep = mirroring.pullers.get(link.name), mirroring.upkeeps.get(link.name)
    groups = mirroring.groups.get(link.name)
    problems = [part.problem for part in (puller, upkeep, groups) if part is not None and part.problem]
    if link.name in mirroring.unusable:
        problems.append(f"the link cannot be used: {mirroring.unusable[link.name]}")
    if upkeep is not None:
        problems += [f"{topic} is not mirrored: {why}" for topic, why in sorted(upkeep.refused.items())]
    puller_rows: dict[str, dict[int, Pulled]] = {}
    for each in () if puller is None else puller.all():
        puller_rows.setdefault(each.partition.topic, {})[each.partition.index] = each
    topics = []
    for topic, mirror in sorted(image.mirrors.items()):
        if mirror.link == link.name:
            topics.append(_topic(broker, image, topic, mirror, puller, puller_rows.get(topic, {})))
            yield
    committed = []
    for row in list(() if groups is None else groups.rows.values()):
        committed.append(
            MirrorGroupData(
                group_id=row.group,
                topic=row.topic,
                partition=row.partition,
                source_offset=row.source_offset,
                offset=row.offset,
            )
        )
        yield
    return LinkData(
        name=link.name,
        problem="; ".join(dict.fromkeys(problems)),
        settings=[
            LinkSetting(name=key, value=None if is_secret(key) else value)
            for key, value in sorted(link.settings.items())
        ],
        topics=topics,
        groups=committed,
    )


def _topic(
    broker: Broker,
    image: Image,
    name: str,
    mirror: MirrorTopic,
    puller: "LinkPuller | None",
    pulled: "dict[int, Pulled]",
) -> MirrorTopicData:
    topic = image.topics.get(name)
    return MirrorTopicData(
        name=name,
        source=mirror.source,
        source_id=mirror.source_id,
        state=str(mirror.state),
        reason=mirror.reason,
        partition_count=0 if topic is None else len(topic.partitions),
        left=list(mirror.left),
        partitions=list(_partitions(broker, image, name, puller, pulled)),
    )


def _partitions(
    broker: Broker, image: Image, name: str, puller: "LinkPuller | None", pulled: "dict[int, Pulled]"
) -> Iterator[MirrorPartitionData]:
    now_ms = broker.clock.monotonic_ms()
    for index in range(len(image.topics[name].partitions)):
        partition = broker.replicas.partition(name, index)
        if partition is None or not partition.leads:
            continue
        row = _row(partition)
        each = pulled.get(index)
        if each is not None:
            machine = each.machine
            row.doing, row.problem = machine.state.value, machine.problem
            row.source_leader = machine.leader
            row.source_high_watermark = machine.high_watermark
            lost = machine.lost_seconds(now_ms)
            row.lost_seconds = -1.0 if lost is None else lost
            row.lost_records, row.missed_records = machine.lost, machine.missed
        elif puller is not None and (name, index) in puller.levels:
            row.lost_seconds = max(0.0, now_ms - puller.levels[name, index]) / 1000
        yield row


def _row(partition: Partition) -> MirrorPartitionData:
    log = partition.log
    return MirrorPartitionData(
        partition=partition.index,
        start_offset=log.log_start_offset,
        end_offset=log.log_end_offset,
        stable_offset=partition.last_stable_offset,
        open_transactions=len(log.producers.ongoing),
    )
