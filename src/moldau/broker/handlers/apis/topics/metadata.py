"""Metadata, versions 0-13: brokers, topics, partitions and their leaders; creates missing topics.

    v0   an empty list of topics means all; from v1 on null does, and an empty list means none
         Replicas on brokers that cannot be reached are left out, with REPLICA_NOT_AVAILABLE
    v4   the client may forbid that missing topics are created (before, only auto.create.topics.enable counts)
    v8   permitted operations of topics, and until v10 of the cluster
    v10  topic ids in the answer
    v12  topics may be asked for by id

The response leaves when missing topics have been created, so that clients need no second request. A response
with all topics is encoded once for each image, version and listener, since encoding is most of its cost. Any
other is made in steps; a topic named twice is answered once.

Rights: a topic without Describe is left out of all topics; named, it is refused before anybody looks whether
it exists. It is refused, too, where it would be created without Create on it or on the cluster. Not here:
REBOOTSTRAP_REQUIRED (v13), which this broker has no reason to answer.
"""

from collections.abc import Generator, Sequence

from moldau.broker.controller.names import name_complaint
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.cluster_view import UNKNOWN_OPERATIONS, ClusterView
from moldau.broker.handlers.parts.mutation_quota import mutation_delay_ms, mutations_of
from moldau.broker.handlers.parts.registry import Reply, handles
from moldau.broker.handlers.parts.rights import (
    apart,
    authorized_operations,
    cluster_operations,
    may,
    may_on_cluster,
)
from moldau.broker.metadata.image import INTERNAL_TOPICS, Image, TopicState
from moldau.common.core.ids import ZERO_UUID
from moldau.common.core.slow_lane import all_steps
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.common.protocol.operations import Operation, ResourceType

_DELAY_FROM = 3
_NEVER = 1 << 15


class EncodedResponse:
    """A response that is encoded already."""

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def encode(self, version: int) -> bytes:
        """The bytes, which were made for the version of the request."""
        del version
        return self._body

    def throttled(self, version: int, delay_ms: int) -> "EncodedResponse":
        """The same for a client that must wait: the delay is its first field."""
        if version < _DELAY_FROM:
            return self
        return EncodedResponse(delay_ms.to_bytes(4, "big") + self._body[4:])


Response = MetadataResponse | EncodedResponse
Steps = Generator[None, None, Response]
_LOOKED_THROUGH_AT_ONCE = 256


@handles(MetadataRequest)
def metadata(broker: Broker, context: RequestContext, request: MetadataRequest) -> Reply[Response]:
    asked = request.topics
    if asked is None or (context.api_version == 0 and not asked):
        return _all_topics(broker, context, request)
    creates = request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable
    many = len(asked) > _LOOKED_THROUGH_AT_ONCE
    if creates and (many or all_steps(_missing(broker, context, asked))):
        return _create_and_answer(broker, context, request, asked)
    return _some_topics(broker, context, request, asked, {})


def _all_topics(broker: Broker, context: RequestContext, request: MetadataRequest) -> Steps:
    view = broker.metadata
    image = view.image
    visible: list[TopicState] = list(image.topics.values())
    if broker.authorizer is not None:
        visible, hidden = yield from apart(
            broker,
            context.session,
            Operation.DESCRIBE,
            ResourceType.TOPIC,
            visible,
            lambda topic: topic.name,
            quiet=True,
        )
        own = request.include_topic_authorized_operations or request.include_cluster_authorized_operations
        if hidden or own or view.image is not image:
            return (yield from _describe_all(broker, context, request, image, visible))
    key = (
        "metadata",
        context.api_version,
        context.session.listener,
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
    )
    known: EncodedResponse | None = view.derived.get(key)
    if known is None:
        answer = yield from _describe_all(broker, context, request, image, visible)
        chunks = yield from answer.encode_in_slices(context.api_version)
        known = EncodedResponse(b"".join(chunks))
        if view.image is image:  # it may have changed between two steps
            view.derived[key] = known
    return known


def _describe_all(
    broker: Broker,
    context: RequestContext,
    request: MetadataRequest,
    image: Image,
    topics: Sequence[TopicState],
) -> Generator[None, None, MetadataResponse]:
    cluster = ClusterView(image, context.session.listener)
    answer = _answer(broker, context, image, cluster, request)
    describe = _Describer(broker, cluster, context, request)
    for topic in topics:
        described = yield from describe(topic)
        answer.topics.append(described)
    return answer


def _may_describe(broker: Broker, context: RequestContext, name: str, *, quiet: bool = False) -> bool:
    return may(broker, context.session, Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=quiet)


def _missing(
    broker: Broker, context: RequestContext, asked: Sequence[MetadataRequestTopic]
) -> Generator[None, None, list[str]]:
    """The topics that do not exist, of those that the client may see."""
    image = broker.metadata.image
    missing: dict[str, None] = {}
    for topic in asked:
        name = topic.name
        if (
            name is not None
            and name not in image.topics
            and topic.topic_id == ZERO_UUID
            and _may_describe(broker, context, name, quiet=True)
        ):
            missing[name] = None
        yield
    return list(missing)


async def _create_and_answer(
    broker: Broker,
    context: RequestContext,
    request: MetadataRequest,
    asked: Sequence[MetadataRequestTopic],
) -> Response:
    slices = broker.slow_lane.slices()
    missing = await slices.run(_missing(broker, context, asked))
    errors: dict[str, ErrorCode] = {}
    session = context.session
    if missing and not may_on_cluster(broker, session, Operation.CREATE, quiet=True):
        steps = apart(broker, session, Operation.CREATE, ResourceType.TOPIC, missing, str)
        missing, refused = await slices.run(steps)
        errors = dict.fromkeys(refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    limit = mutations_of(context, strict_from=_NEVER) if missing else None
    results = await broker.controller.auto_create_topics(missing, limit) if missing else []
    errors |= {result.name: result.outcome.error_code for result in results if result.outcome.failed}
    answer = await slices.run(_some_topics(broker, context, request, asked, errors))
    answer.throttle_time_ms = mutation_delay_ms(limit)
    return answer


def _some_topics(
    broker: Broker,
    context: RequestContext,
    request: MetadataRequest,
    asked: Sequence[MetadataRequestTopic],
    errors: dict[str, ErrorCode],
) -> Generator[None, None, MetadataResponse]:
    image = broker.metadata.image
    cluster = ClusterView(image, context.session.listener)
    answer = _answer(broker, context, image, cluster, request)
    describe = _Describer(broker, cluster, context, request)
    seen: set[str | bytes] = set()
    for topic in asked:
        yield
        by_id = topic.topic_id != ZERO_UUID and context.api_version >= 12
        identity = topic.topic_id if by_id else topic.name or ""
        if identity in seen:
            continue
        seen.add(identity)
        found = image.topic_by_id(topic.topic_id) if by_id else image.topics.get(topic.name or "")
        name = found.name if found is not None else None if by_id else topic.name
        if name is not None and not _may_describe(broker, context, name):
            answer.topics.append(
                MetadataResponseTopic(  # names and ids are not told apart from what was asked
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    name=None if by_id else name,
                    topic_id=topic.topic_id if by_id else ZERO_UUID,
                )
            )
        elif found is not None:
            described = yield from describe(found)
            answer.topics.append(described)
        elif by_id:
            answer.topics.append(_absent(ErrorCode.UNKNOWN_TOPIC_ID, None, topic.topic_id))
        elif topic.name is None:
            answer.topics.append(_absent(ErrorCode.INVALID_REQUEST, "", topic.topic_id))
        else:
            answer.topics.append(_absent(_why_absent(topic.name, errors), topic.name, ZERO_UUID))
    return answer


def _why_absent(name: str, errors: dict[str, ErrorCode]) -> ErrorCode:
    error = errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return error
    if name_complaint(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    # Deleted after another request created it, or one of too many to be created at once.
    unknown = error in (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.POLICY_VIOLATION)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if unknown else error


def _absent(error_code: ErrorCode, name: str | None, topic_id: bytes) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error_code, name=name, topic_id=topic_id, is_internal=name in INTERNAL_TOPICS
    )


def _answer(
    broker: Broker, context: RequestContext, image: Image, cluster: ClusterView, request: MetadataRequest
) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=one.node_id, host=host, port=port, rack=one.rack)
            for one, host, port in cluster.brokers
        ],
        cluster_id=image.cluster_id,
        controller_id=cluster.controller_id(broker.node_id),
        topics=[],
        cluster_authorized_operations=(
            cluster_operations(broker, context.session)
            if request.include_cluster_authorized_operations
            else UNKNOWN_OPERATIONS
        ),
    )


class _Describer:
    """Describes topics of one image to one client."""

    def __init__(
        self, broker: Broker, cluster: ClusterView, context: RequestContext, request: MetadataRequest
    ) -> None:
        self._broker = broker
        self._session = context.session
        self._cluster = cluster
        self._knows_listener_errors = context.api_version >= 6
        self._hides_dead_replicas = context.api_version == 0
        self._tells_operations = request.include_topic_authorized_operations

    def __call__(self, topic: TopicState) -> Generator[None, None, MetadataResponseTopic]:
        partitions = yield from self._partitions(topic)
        return MetadataResponseTopic(
            error_code=0,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.internal,
            partitions=partitions,
            topic_authorized_operations=(
                authorized_operations(self._broker, self._session, ResourceType.TOPIC, topic.name)
                if self._tells_operations
                else UNKNOWN_OPERATIONS
            ),
        )

    def _partitions(self, topic: TopicState) -> Generator[None, None, list[MetadataResponsePartition]]:
        partitions = []
        for index, state in enumerate(topic.partitions):
            error_code, leader = self._cluster.leader_of(state)
            if error_code is ErrorCode.LISTENER_NOT_FOUND and not self._knows_listener_errors:
                error_code = ErrorCode.LEADER_NOT_AVAILABLE
            if self._hides_dead_replicas:
                state = self._cluster.without_dead(state)
                if not error_code and state is not topic.partitions[index]:
                    error_code = ErrorCode.REPLICA_NOT_AVAILABLE
            partitions.append(
                MetadataResponsePartition(
                    error_code=error_code,
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=state.leader_epoch,
                    replica_nodes=list(state.replicas),
                    isr_nodes=list(state.isr),
                    offline_replicas=self._cluster.offline_replicas(topic.topic_id, index, state),
                )
            )
            yield
        return partitions
