"""Decisions about links to other clusters and the topics that mirror theirs.

Each is a decision on the image, so that it may be made twice, by any broker, and by another one when the
first died in the middle: what is so already stays so, and the image says what is left to do.

    create     topic created, PREPARING, left = all ──> each partition: begun ──> MIRRORING
    failover   FAILING_OVER, left = all, leader epochs + 1 ──> each: aborted what was open ──> FAILED_OVER

Why it is so: docs/decisions/mirror.md. Not here: what is read from the other cluster to decide (mirror/).
"""

import random
from collections.abc import Callable, Mapping, Sequence

from moldau.broker.controller.decision import DONE, Decision, Outcome, Refusal, Steps
from moldau.broker.controller.names import check_name
from moldau.broker.controller.topics import NewTopic, create_topics
from moldau.broker.metadata.changes import Change, PartitionsChanged, ProducerIdsAllocated, TopicDeleted
from moldau.broker.metadata.image import INTERNAL_TOPICS, Image, PartitionState
from moldau.broker.metadata.mirror_changes import (
    MirrorLinkRemoved,
    MirrorLinkSet,
    MirrorTopicRemoved,
    MirrorTopicSet,
)
from moldau.broker.metadata.mirrors import MirrorState, MirrorTopic
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings

Outcomes = list[tuple[str, Outcome]]
"""By topic."""

PRODUCER_ID_MAX = 2**62
"""Higher ids are not passed over here: a source that made them up would use up all there are."""

_PREPARING, _MIRRORING, _PAUSED = MirrorState.PREPARING, MirrorState.MIRRORING, MirrorState.PAUSED
_FAULTED, _FAILING_OVER = MirrorState.FAULTED, MirrorState.FAILING_OVER
_FAILED_OVER = MirrorState.FAILED_OVER


# Links


def set_link(image: Image, name: str, settings: Mapping[str, str], *, may_exist: bool) -> Decision[Outcome]:
    """Make a link, or (`may_exist`) give one other settings."""
    try:
        check_name(name)
    except Refusal as refusal:
        return Decision(
            [], Outcome(refusal.outcome.error_code, f"the link's name: {refusal.outcome.message}")
        )
    known = image.mirror_links.get(name)
    if known is not None and dict(known.settings) == dict(settings):
        return Decision([], DONE)
    if known is not None and not may_exist:
        message = f"there is a link {name} already, with other settings; moldau mirror alter changes them"
        return Decision([], Outcome(ErrorCode.DUPLICATE_RESOURCE, message))
    return Decision([MirrorLinkSet(name, dict(settings))], DONE)


def remove_link(image: Image, name: str) -> Decision[Outcome]:
    """Remove a link that mirrors nothing any more; what was failed over forgets where it came from."""
    if name not in image.mirror_links:
        return Decision([], no_link(name))
    own = {topic: mirror for topic, mirror in image.mirrors.items() if mirror.link == name}
    active = sorted(topic for topic, mirror in own.items() if mirror.state is not _FAILED_OVER)
    if active:
        shown = ", ".join(active[:5]) + (f" and {len(active) - 5} more" if len(active) > 5 else "")
        message = f"the link {name} mirrors {shown}: fail them over, or delete them, first"
        return Decision([], Outcome(ErrorCode.INVALID_REQUEST, message))
    return Decision([*map(MirrorTopicRemoved, own), MirrorLinkRemoved(name)], DONE)


def no_link(name: str) -> Outcome:
    """That there is no such link."""
    return Outcome(ErrorCode.RESOURCE_NOT_FOUND, f"there is no link {name}; moldau mirror status lists them")


# Topics


def add_mirror(
    image: Image,
    new: NewTopic,
    mirror: MirrorTopic,
    settings: BrokerSettings,
    source: random.Random,
    *,
    adopt: bool = False,
) -> Steps[Outcome]:
    """Mirror a topic, which is created, or (`adopt`) may be there with as many partitions."""
    if mirror.link not in image.mirror_links:
        return Decision([], no_link(mirror.link))
    known, topic = image.mirrors.get(new.name), image.topics.get(new.name)
    if known is not None and (known.link, known.source) == (mirror.link, mirror.source):
        return Decision([], DONE)
    if known is not None and known.state is not _FAILED_OVER:
        return _refused(f"{new.name} mirrors {known.source} of the link {known.link} already")
    if new.name in INTERNAL_TOPICS:
        return _refused(f"{new.name} belongs to the brokers of each cluster and is not mirrored")
    begun = mirror._replace(state=_PREPARING, left=tuple(range(new.num_partitions)), reason="")
    if topic is None:
        created = yield from create_topics(image, [new], settings, source)
        outcome = created.answer[0].outcome
        if outcome.failed:
            return Decision([], outcome)
        return Decision([*created.changes, MirrorTopicSet(new.name, begun)], DONE)
    if not adopt:
        return _refused(
            f"there is a topic {new.name} here already; --adopt takes it for a copy of the source's, after "
            "its end was compared"
        )
    if len(topic.partitions) != new.num_partitions:
        return _refused(
            f"{new.name} has {len(topic.partitions)} partitions here and {new.num_partitions} at the source"
        )
    return Decision([MirrorTopicSet(new.name, begun)], DONE)


def _refused(message: str) -> Decision[Outcome]:
    return Decision([], Outcome(ErrorCode.INVALID_REQUEST, message))


Changed = Callable[[str, MirrorTopic], "list[Change] | Outcome"]


def _each(image: Image, link: str, topics: Sequence[str] | None, change: Changed) -> Decision[Outcomes]:
    """The same for each of the link's topics, or (None) for all that are not failed over."""
    if link not in image.mirror_links:
        return Decision([], [("", no_link(link))])
    if topics is None:
        own = image.mirrors.items()
        topics = [name for name, each in own if each.link == link and each.state is not _FAILED_OVER]
    changes: list[Change] = []
    outcomes: Outcomes = []
    for name in dict.fromkeys(topics):
        mirror = image.mirrors.get(name)
        if mirror is None or mirror.link != link:
            message = f"the link {link} has no topic {name}"
            outcomes.append((name, Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)))
            continue
        made = change(name, mirror)
        if isinstance(made, Outcome):
            outcomes.append((name, made))
        else:
            changes += made
            outcomes.append((name, DONE))
    return Decision(changes, outcomes)


def pause(image: Image, link: str, topics: Sequence[str] | None) -> Decision[Outcomes]:
    """Pull no more, until `resume`."""

    def change(name: str, mirror: MirrorTopic) -> list[Change] | Outcome:
        if mirror.state in (_PAUSED, _FAULTED):
            return []
        if not mirror.is_pulled():
            return _not_mirroring(name, mirror)
        return [MirrorTopicSet(name, mirror._replace(state=_PAUSED, left=()))]

    return _each(image, link, topics, change)


def resume(image: Image, link: str, topics: Sequence[str] | None) -> Decision[Outcomes]:
    """Pull again what was paused, or faulted."""

    def change(name: str, mirror: MirrorTopic) -> list[Change] | Outcome:
        if mirror.is_pulled():
            return []
        if mirror.state not in (_PAUSED, _FAULTED):
            return _not_mirroring(name, mirror)
        return [MirrorTopicSet(name, _prepared(image, name, mirror))]

    return _each(image, link, topics, change)


def _prepared(image: Image, name: str, mirror: MirrorTopic) -> MirrorTopic:
    everyone = tuple(range(len(image.topics[name].partitions)))
    return mirror._replace(state=_PREPARING, left=everyone, reason="")


def _not_mirroring(name: str, mirror: MirrorTopic) -> Outcome:
    return Outcome(ErrorCode.INVALID_REQUEST, f"{name} is {mirror.state}, and not mirroring any more")


def fail_over(image: Image, link: str, topics: Sequence[str] | None) -> Decision[Outcomes]:
    """Pull no more, and make the topics writable once their open transactions are aborted."""

    def change(name: str, mirror: MirrorTopic) -> list[Change] | Outcome:
        if mirror.state in (_FAILING_OVER, _FAILED_OVER):
            return []
        states = image.topics[name].partitions
        ending = mirror._replace(state=_FAILING_OVER, left=tuple(range(len(states))))
        rows = tuple((index, _next_epoch(state)) for index, state in enumerate(states))
        return [MirrorTopicSet(name, ending), PartitionsChanged(name, rows)]

    return _each(image, link, topics, change)


def _next_epoch(state: PartitionState, at_least: int = -1) -> PartitionState:
    epoch = max(state.leader_epoch + 1, at_least)
    return state._replace(leader_epoch=epoch, partition_epoch=state.partition_epoch + 1)


def delete_mirrors(image: Image, link: str, topics: Sequence[str]) -> Decision[Outcomes]:
    """Delete copies here, with what they hold."""

    def change(name: str, mirror: MirrorTopic) -> list[Change] | Outcome:
        if mirror.state in (_FAILING_OVER, _FAILED_OVER):
            return Outcome(
                ErrorCode.INVALID_REQUEST, f"{name} is {mirror.state}: it is a topic of its own; delete that"
            )
        return [TopicDeleted(name)]

    return _each(image, link, topics, change)


def reverse(image: Image, link: str, topics: Sequence[str] | None) -> Decision[Outcomes]:
    """Mirror again what was failed over (or is here still): what the source does not have is cut off."""
    if topics is None:
        topics = [name for name, each in image.mirrors.items() if each.link == link]

    def change(name: str, mirror: MirrorTopic) -> list[Change] | Outcome:
        if mirror.is_pulled():
            return []
        if mirror.state is _FAILING_OVER:
            return Outcome(ErrorCode.INVALID_REQUEST, f"{name} is being failed over; wait for that")
        return [MirrorTopicSet(name, _prepared(image, name, mirror))]

    return _each(image, link, topics, change)


# What pulling brokers ask for


def partitions_done(
    image: Image,
    topic: str,
    state: MirrorState,
    indexes: Sequence[int],
    node_id: int,
    highest_producer_id: int,
) -> Decision[bool]:
    """These partitions have done what `state` waits for; whether that is the state still. Producer ids that
    they hold are not allotted here.
    """
    mirror = image.mirrors.get(topic)
    if mirror is None or mirror.state is not state:
        return Decision([], False)
    left = tuple(index for index in mirror.left if index not in indexes)
    after = _MIRRORING if state is _PREPARING else _FAILED_OVER
    changes: list[Change] = []
    if left != mirror.left:
        changes.append(MirrorTopicSet(topic, mirror._replace(left=left, state=state if left else after)))
    if image.next_producer_id <= highest_producer_id <= PRODUCER_ID_MAX:
        changes.append(ProducerIdsAllocated(node_id, highest_producer_id + 1))
    return Decision(changes, True)


def fault(image: Image, topic: str, link: str, reason: str) -> Decision[bool]:
    """Pull no more, for this reason; whether it was still pulled."""
    mirror = image.mirrors.get(topic)
    if mirror is None or mirror.link != link or not mirror.is_pulled():
        return Decision([], False)
    return Decision([MirrorTopicSet(topic, mirror._replace(state=_FAULTED, left=(), reason=reason))], True)


def know_source(image: Image, topic: str, source_id: bytes) -> Decision[bool]:
    """Remember the source topic's id, which was not known."""
    mirror = image.mirrors.get(topic)
    if mirror is None or any(mirror.source_id):
        return Decision([], False)
    return Decision([MirrorTopicSet(topic, mirror._replace(source_id=source_id))], True)


def raise_epochs(image: Image, topic: str, wanted: Mapping[int, int]) -> Decision[bool]:
    """Have these partitions' leader epochs at least so high (by index)."""
    known, mirror = image.topics.get(topic), image.mirrors.get(topic)
    if known is None or mirror is None:
        return Decision([], False)
    rows = tuple(
        (index, _next_epoch(known.partitions[index], epoch))
        for index, epoch in sorted(wanted.items())
        if index < len(known.partitions) and known.partitions[index].leader_epoch < epoch
    )
    return Decision([PartitionsChanged(topic, rows)] if rows else [], True)
