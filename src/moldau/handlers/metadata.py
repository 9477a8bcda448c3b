"""Metadata, versions 0-13: brokers, topics, partitions and their leaders; creates topics that are asked for.

    v0   an empty list of topics means all; from v1 on null does, and an empty list means none
    v4   the asker may forbid that missing topics are created (before, only auto.create.topics.enable counts)
    v8   permitted operations of topics, and until v10 of the cluster
    v10  topic ids in the answer
    v12  topics may be asked for by id

A topic that is created on the way is created when the answer goes out, so that clients need no second try. An
answer about all topics is encoded once for each image, version and listener, because with 10,000 partitions
that is the cost. Not here: REBOOTSTRAP_REQUIRED (v13), which this broker has no reason to answer.
"""

from collections.abc import Awaitable, Sequence

from moldau.controller.names import name_complaint
from moldau.core.ids import ZERO_UUID
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.cluster_view import (
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    UNKNOWN_OPERATIONS,
    leader_of,
    offline_replicas,
    reachable_brokers,
)
from moldau.handlers.registry import handles
from moldau.metadata.image import INTERNAL_TOPICS, Image, TopicState
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


class EncodedResponse:
    """An answer that is encoded already."""

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def encode(self, version: int) -> bytes:
        """The bytes, which were made for the version of the request."""
        del version
        return self._body


Answer = MetadataResponse | EncodedResponse


@handles(MetadataRequest)
def metadata(broker: Broker, context: RequestContext, request: MetadataRequest) -> Answer | Awaitable[Answer]:
    asked = request.topics
    if asked is None or (context.api_version == 0 and not asked):
        return _all_topics(broker, context, request)
    if request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable:
        missing = _missing(broker.metadata.image, asked)
        if missing:
            return _create_and_answer(broker, context, request, asked, missing)
    return _some_topics(broker, context, request, asked, {})


def _all_topics(broker: Broker, context: RequestContext, request: MetadataRequest) -> Answer:
    view = broker.metadata
    key = (
        "metadata",
        context.api_version,
        context.listener,
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
    )
    known: EncodedResponse | None = view.derived.get(key)
    if known is None:
        answer = _answer(view.image, context, request)
        describe = _Describer(view.image, context, request)
        answer.topics = [describe(topic) for topic in view.image.topics.values()]
        known = view.derived[key] = EncodedResponse(answer.encode(context.api_version))
    return known


def _missing(image: Image, asked: Sequence[MetadataRequestTopic]) -> list[str]:
    names = (topic.name for topic in asked if topic.name is not None and topic.topic_id == ZERO_UUID)
    return [name for name in dict.fromkeys(names) if name not in image.topics]


async def _create_and_answer(
    broker: Broker,
    context: RequestContext,
    request: MetadataRequest,
    asked: Sequence[MetadataRequestTopic],
    missing: list[str],
) -> Answer:
    results = await broker.controller.auto_create_topics(missing)
    errors = {result.name: result.outcome.error_code for result in results if result.outcome.failed}
    return _some_topics(broker, context, request, asked, errors)


def _some_topics(
    broker: Broker,
    context: RequestContext,
    request: MetadataRequest,
    asked: Sequence[MetadataRequestTopic],
    errors: dict[str, ErrorCode],
) -> MetadataResponse:
    image = broker.metadata.image
    answer = _answer(image, context, request)
    describe = _Describer(image, context, request)
    seen: set[str | bytes] = set()
    for topic in asked:
        by_id = topic.topic_id != ZERO_UUID and context.api_version >= 12
        identity = topic.topic_id if by_id else topic.name or ""
        if identity in seen:
            continue
        seen.add(identity)
        found = image.topic_by_id(topic.topic_id) if by_id else image.topics.get(topic.name or "")
        if found is not None:
            answer.topics.append(describe(found))
        elif by_id:
            answer.topics.append(_absent(ErrorCode.UNKNOWN_TOPIC_ID, None, topic.topic_id))
        elif topic.name is None:
            answer.topics.append(_absent(ErrorCode.INVALID_REQUEST, "", topic.topic_id))
        else:
            answer.topics.append(_absent(_why_absent(topic.name, errors), topic.name, ZERO_UUID))
    return answer


def _why_absent(name: str, errors: dict[str, ErrorCode]) -> ErrorCode:
    if name_complaint(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    error = errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    # Deleted between its creation by somebody else and this answer.
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if error is ErrorCode.TOPIC_ALREADY_EXISTS else error


def _absent(error_code: ErrorCode, name: str | None, topic_id: bytes) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error_code, name=name, topic_id=topic_id, is_internal=name in INTERNAL_TOPICS
    )


def _answer(image: Image, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.node_id, host=host, port=port, rack=broker.rack)
            for broker, host, port in reachable_brokers(image, context.listener)
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=[],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else UNKNOWN_OPERATIONS
        ),
    )


class _Describer:
    """Turns topics of one image into answers for one asker."""

    def __init__(self, image: Image, context: RequestContext, request: MetadataRequest) -> None:
        self._reachable = frozenset(
            broker.node_id for broker, _, _ in reachable_brokers(image, context.listener)
        )
        self._knows_listener_errors = context.api_version >= 6
        self._operations = (
            TOPIC_OPERATIONS if request.include_topic_authorized_operations else UNKNOWN_OPERATIONS
        )

    def __call__(self, topic: TopicState) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            error_code=0,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.internal,
            partitions=self._partitions(topic),
            topic_authorized_operations=self._operations,
        )

    def _partitions(self, topic: TopicState) -> list[MetadataResponsePartition]:
        partitions = []
        for index, state in enumerate(topic.partitions):
            error_code, leader = leader_of(state, self._reachable)
            if error_code is ErrorCode.LISTENER_NOT_FOUND and not self._knows_listener_errors:
                error_code = ErrorCode.LEADER_NOT_AVAILABLE
            partitions.append(
                MetadataResponsePartition(
                    error_code=error_code,
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=state.leader_epoch,
                    replica_nodes=list(state.replicas),
                    isr_nodes=list(state.isr),
                    offline_replicas=offline_replicas(state, self._reachable),
                )
            )
        return partitions
