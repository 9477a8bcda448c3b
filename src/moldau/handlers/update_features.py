"""UpdateFeatures, versions 0-2: change the cluster's finalized feature levels (KIP-584).

    v1  the type of an update, validate_only (KIP-778)      v2  one error for all, no rows (KIP-1022)

A new cluster has each feature at its highest level, and no level can be lowered in this version. Updates are
checked as in Kafka; one to the present level succeeds, and a downgrade that Kafka would make is refused with
a message. All updates are made or none.
"""

from collections.abc import Generator

from moldau.handlers.api_versions import FEATURES
from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
TYPES_SINCE = 1
ROWS_UNTIL = 1


@handles(UpdateFeaturesRequest)
def update_features(
    broker: Broker, context: RequestContext, request: UpdateFeaturesRequest
) -> Generator[None, None, UpdateFeaturesResponse]:
    version = context.api_version
    for update in request.feature_updates:
        yield
        wrong = _complaint(update, version, broker.metadata.image.controller_id)
        if wrong is not None:
            message = (
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {wrong}"
            )
            return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=message)
    response = UpdateFeaturesResponse(error_message=None)
    if version <= ROWS_UNTIL:
        for update in request.feature_updates:
            response.results.append(UpdatableFeatureResult(feature=update.feature, error_message="NONE"))
            yield
    return response


def _complaint(update: FeatureUpdateKey, version: int, controller_id: int) -> str | None:
    """What is wrong with an update; None if it names the present level."""
    level = update.max_version_level
    if version < TYPES_SINCE:
        kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    else:
        kind = update.upgrade_type
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    highest = FEATURES.get(update.feature)
    if highest is None:
        if level == 0:
            return f"Feature {update.feature} not found."
        return f"Local controller {controller_id} does not support this feature."
    if level > highest:
        return f"Local controller {controller_id} only supports versions 0-{highest}"
    if level == highest:
        return None
    if kind == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    return "This version of Moldau cannot lower the level of a feature."
