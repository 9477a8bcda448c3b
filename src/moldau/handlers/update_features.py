"""UpdateFeatures, versions 0-2: change the cluster's finalized feature levels (KIP-584).

    v1  the type of an update, validate_only (KIP-778)      v2  one error for all, no rows (KIP-1022)

A new cluster has each feature at its highest level, and no level can be lowered in this version. Updates are
checked as in Kafka; one to the present level succeeds, and a downgrade that Kafka would make is refused with
a message. All updates are made or none. The one level that may be below its highest, and so be raised, is
that of the metadata, in a cluster whose brokers were upgraded (metadata/levels.py). The client must have
Alter on the cluster.
"""

from collections.abc import Generator

from moldau.handlers.api_versions import FEATURES
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import Reply, handles
from moldau.handlers.rights import may_on_cluster
from moldau.metadata.image import Image
from moldau.metadata.levels import FEATURE, LEVEL_MAX, LEVEL_MIN
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from moldau.protocol.operations import Operation

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
TYPES_SINCE = 1
ROWS_UNTIL = 1


@handles(UpdateFeaturesRequest)
def update_features(
    broker: Broker, context: RequestContext, request: UpdateFeaturesRequest
) -> Reply[UpdateFeaturesResponse]:
    if not may_on_cluster(broker, context.session, Operation.ALTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UpdateFeaturesResponse(error_code=code, error_message=code.message)
    if any(update.feature == FEATURE for update in request.feature_updates):
        return _with_level(broker, context.api_version, request)
    return _without_level(broker, context.api_version, request)


def _without_level(
    broker: Broker, version: int, request: UpdateFeaturesRequest
) -> Generator[None, None, UpdateFeaturesResponse]:
    response, _ = yield from _checked(broker, version, request)
    return response


async def _with_level(broker: Broker, version: int, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    response, level = await broker.slow_lane.slices().run(_checked(broker, version, request))
    if level is None:
        return response
    outcome = await broker.controller.raise_level(level, validate_only=request.validate_only)
    if not outcome.failed:
        return response
    message = _FAILED.format(level=level, feature=FEATURE, complaint=outcome.message or "")
    return UpdateFeaturesResponse(error_code=outcome.error_code, error_message=message)


_FAILED = (
    "The update failed for all features since the following feature had an error: "
    "Invalid update version {level} for feature {feature}. {complaint}"
)


def _checked(
    broker: Broker, version: int, request: UpdateFeaturesRequest
) -> Generator[None, None, tuple[UpdateFeaturesResponse, int | None]]:
    """The response if all goes well, and the metadata level to raise the cluster to, if that is asked for."""
    image, wanted = broker.metadata.image, None
    response = UpdateFeaturesResponse(error_message=None)
    for update in request.feature_updates:
        yield
        wrong = _complaint(update, version, image)
        if wrong is not None:
            message = _FAILED.format(level=update.max_version_level, feature=update.feature, complaint=wrong)
            refused = UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=message
            )
            return refused, None
        if update.feature == FEATURE:
            wanted = update.max_version_level
        if version <= ROWS_UNTIL:
            response.results.append(UpdatableFeatureResult(feature=update.feature, error_message="NONE"))
    return response, wanted


def _complaint(update: FeatureUpdateKey, version: int, image: Image) -> str | None:
    """What is wrong with an update; None if it names the present level, or a higher one that may be."""
    level, controller_id = update.max_version_level, image.controller_id
    if version < TYPES_SINCE:
        kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    else:
        kind = update.upgrade_type
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    lowest, highest = 0, FEATURES.get(update.feature)
    present = highest
    if update.feature == FEATURE:
        lowest, highest, present = LEVEL_MIN, LEVEL_MAX, image.level
    if highest is None:
        if level == 0:
            return f"Feature {update.feature} not found."
        return f"Local controller {controller_id} does not support this feature."
    if not lowest <= level <= highest:
        return f"Local controller {controller_id} only supports versions {lowest}-{highest}"
    if present is not None and level >= present:
        return None
    if kind == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    return "This version of Moldau cannot lower the level of a feature."
