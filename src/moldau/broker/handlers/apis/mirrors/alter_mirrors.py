"""AlterMirrors, version 0: links to other clusters, and what becomes of their topics here (Moldau's own).

The client must have Alter on the cluster. `create` asks the source for its topics first, so that a wrong
address or password is told at once. Not here: the decisions (controller/mirrors.py), pulling (mirror/).
"""

from collections.abc import Callable

from moldau.broker.controller import mirrors as decisions
from moldau.broker.controller.decision import Decision, Outcome
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.broker.metadata.image import Image
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.operations import Operation
from moldau.common.protocol.own.alter_mirrors import (
    AlteredMirror,
    AlterMirrorsRequest,
    AlterMirrorsResponse,
)
from moldau.common.settings.rows import SettingError

Change = Callable[[Image, str, list[str] | None], Decision[decisions.Outcomes]]
_OF_TOPICS: dict[str, Change] = {
    "pause": decisions.pause,
    "resume": decisions.resume,
    "failover": decisions.fail_over,
    "reverse": decisions.reverse,
}


@handles(AlterMirrorsRequest)
async def alter_mirrors(
    broker: Broker, context: RequestContext, request: AlterMirrorsRequest
) -> AlterMirrorsResponse:
    if not may_on_cluster(broker, context.session, Operation.ALTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return AlterMirrorsResponse(error_code=code, error_message=code.message)
    action, link = request.action, request.link
    if action in ("create", "alter"):
        return await _set_link(broker, request)
    if action == "delete" and request.topics is None:
        outcome = await broker.controller.decide(
            lambda image: decisions.remove_link(image, link),
            lambda failure: failure,
            validate_only=request.validate_only,
        )
        return AlterMirrorsResponse(error_code=outcome.error_code, error_message=outcome.message)
    if action == "delete":
        return await _change(broker, request, decisions.delete_mirrors)  # type: ignore[arg-type]
    change = _OF_TOPICS.get(action)
    if change is None:
        return _refused(ErrorCode.INVALID_REQUEST, f"{action!r} is nothing that is done with a link")
    return await _change(broker, request, change)


def _refused(code: ErrorCode, message: str | None) -> AlterMirrorsResponse:
    return AlterMirrorsResponse(error_code=code, error_message=message)


async def _change(broker: Broker, request: AlterMirrorsRequest, change: Change) -> AlterMirrorsResponse:
    topics = request.topics
    outcomes = await broker.controller.decide(
        lambda image: change(image, request.link, topics),
        lambda failure: [("", failure)],
        validate_only=request.validate_only,
    )
    return _told(outcomes)


def _told(outcomes: decisions.Outcomes) -> AlterMirrorsResponse:
    whole = next((outcome for name, outcome in outcomes if not name), None)
    if whole is not None:
        return AlterMirrorsResponse(error_code=whole.error_code, error_message=whole.message)
    return AlterMirrorsResponse(
        topics=[
            AlteredMirror(name=name, error_code=outcome.error_code, error_message=outcome.message)
            for name, outcome in outcomes
        ]
    )


async def _set_link(broker: Broker, request: AlterMirrorsRequest) -> AlterMirrorsResponse:
    from moldau.broker.mirror.link_settings import mirror_settings
    from moldau.broker.mirror.source import SourceCluster
    from moldau.broker.mirror.topics import mirror_topics, wanted_topics
    from moldau.broker.peers.peers import PeerError

    parts, name = broker.mirroring.parts, request.link
    image = broker.metadata.image
    known = image.mirror_links.get(name)
    given = {each.name: each.value for each in request.settings}
    texts = {key: value for key, value in given.items() if value is not None}
    if request.action == "alter":
        if known is None:
            return _whole(decisions.no_link(name))
        kept = {key: value for key, value in known.settings.items() if key not in given}
        texts = {**kept, **texts}
    try:
        settings = mirror_settings(texts)
        source = SourceCluster(parts, name, texts)
    except SettingError as error:
        return _refused(ErrorCode.INVALID_CONFIG, error.sentence)
    try:
        found = await parts.lane.slices().run(wanted_topics(await source.topics(None), settings))
        if source.cluster_id and source.cluster_id == image.cluster_id:
            return _refused(ErrorCode.INVALID_CONFIG, "bootstrap.servers names this cluster itself")
        outcome = await broker.controller.decide(
            lambda image: decisions.set_link(image, name, texts, may_exist=request.action == "alter"),
            lambda failure: failure,
            validate_only=request.validate_only,
        )
        if outcome.failed or request.validate_only:
            told = _whole(outcome)
            told.topics = [AlteredMirror(name=each.name) for each in found]
            return told
        return _told(await mirror_topics(parts, source, name, settings, found, adopt=request.adopt))
    except PeerError as error:
        return _refused(ErrorCode.BROKER_NOT_AVAILABLE, f"the source cannot be asked: {error}")
    finally:
        source.close()


def _whole(outcome: Outcome) -> AlterMirrorsResponse:
    return AlterMirrorsResponse(error_code=outcome.error_code, error_message=outcome.message)
