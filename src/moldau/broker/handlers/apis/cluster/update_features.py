"""UpdateFeatures, versions 0-2: change the cluster's finalized feature levels (KIP-584).

    v1  the type of an update, validate_only (KIP-778)      v2  one error for all, no rows (KIP-1022)

A new cluster has each feature at its highest level. Updates are checked as in Kafka 4.3, and all are made or
none; one to the present level succeeds. Two levels change: that of the metadata, which is raised in a cluster
whose brokers were upgraded (metadata/levels.py), and eligible.leader.replicas.version (metadata/features.py).
The others cannot be lowered: a downgrade that Kafka would make is refused with a message. The client must
have Alter on the cluster.
"""

from collections.abc import Generator

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import Reply, handles
from moldau.broker.handlers.parts.rights import may_on_cluster
from moldau.broker.metadata.features import CHANGEABLE, METADATA, SUPPORTED, level_of
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.levels import FEATURE, LEVEL_MAX, LEVEL_MIN
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from moldau.common.protocol.operations import Operation

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
    return _answered(broker, context.api_version, request)


async def _answered(broker: Broker, version: int, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    response, levels = await broker.slow_lane.slices().run(_checked(broker, version, request))
    if not levels:
        return response
    outcome = await broker.controller.update_features(levels, validate_only=request.validate_only)
    if not outcome.failed:
        return response
    return UpdateFeaturesResponse(
        error_code=outcome.error_code, error_message=_FAILED.format(complaint=outcome.message or "")
    )


_FAILED = "The update failed for all features since the following feature had an error: {complaint}"


def _checked(
    broker: Broker, version: int, request: UpdateFeaturesRequest
) -> Generator[None, None, tuple[UpdateFeaturesResponse, dict[str, int]]]:
    """The response if all goes well, and the levels that the cluster gets then: those that can change."""
    image, levels = broker.metadata.image, {}
    response = UpdateFeaturesResponse(error_message=None)
    for update in request.feature_updates:
        yield
        wrong = _complaint(update, version, image)
        if wrong is not None:
            code = ErrorCode.INVALID_UPDATE_VERSION
            return UpdateFeaturesResponse(error_code=code, error_message=_FAILED.format(complaint=wrong)), {}
        if update.feature == FEATURE or update.feature in CHANGEABLE:
            levels[update.feature] = update.max_version_level
        if version <= ROWS_UNTIL:
            response.results.append(UpdatableFeatureResult(feature=update.feature, error_message="NONE"))
    return response, levels


def _complaint(update: FeatureUpdateKey, version: int, image: Image) -> str | None:
    """What is wrong with an update; None if it names the present level, or another one that may be."""
    name, level = update.feature, update.max_version_level
    if version < TYPES_SINCE:
        kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    else:
        kind = update.upgrade_type
    wrong = _never(name, level, kind, image.controller_id)
    if wrong is None:
        present = image.level if name == FEATURE else level_of(image, name)
        if name == METADATA and level < present and kind != UPGRADE:
            why = _METADATA_UNSAFE if kind == UNSAFE_DOWNGRADE else _METADATA_SAFE
            return f"Unsupported {METADATA} downgrade from {present} to {level}. {why}"
        wrong = _not_from(present, name, level, kind)
    return None if wrong is None else f"Invalid update version {level} for feature {name}. {wrong}"


_METADATA_SAFE = "Refusing to perform the requested downgrade because it might delete metadata information."
_METADATA_UNSAFE = "Unsafe metadata downgrade is not supported in this version."


def _never(name: str, level: int, kind: int, controller_id: int) -> str | None:
    """What is wrong with an update in any cluster."""
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    bounds = (LEVEL_MIN, LEVEL_MAX) if name == FEATURE else SUPPORTED.get(name)
    if bounds is None:
        if level == 0:
            return f"Feature {name} not found."
        return f"Local controller {controller_id} does not support this feature."
    if not bounds[0] <= level <= bounds[1]:
        return f"Local controller {controller_id} only supports versions {bounds[0]}-{bounds[1]}"
    return None


def _not_from(present: int, name: str, level: int, kind: int) -> str | None:
    """What is wrong with an update of a feature at this level."""
    if level > present and kind != UPGRADE:
        return "Can't downgrade to a newer version."
    if level >= present:
        return None
    if kind == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if name in CHANGEABLE:
        return None
    return "This version of Moldau cannot lower the level of this feature."
