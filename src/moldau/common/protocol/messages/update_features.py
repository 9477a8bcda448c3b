"""UpdateFeatures (key 57, versions 0-2): raise or lower the cluster's feature levels.

v1   validate_only; upgrade_type instead of allow_downgrade
v2   answer: no list of features
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    array,
    field,
    message,
    response_to,
    since,
)


@message(key=57, versions=(0, 2), flexible_from=0)
class UpdateFeaturesRequest(Message):
    """Features with the level wanted."""

    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey] = array()
    validate_only: Bool = since(1)


class FeatureUpdateKey(Struct):
    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Bool = field(until=0)
    upgrade_type: Int8 = since(1, default=1)


@response_to(UpdateFeaturesRequest)
class UpdateFeaturesResponse(Message):
    """An error code for each feature."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    results: list[UpdatableFeatureResult] = field(until=1, ignorable=True)


class UpdatableFeatureResult(Struct):
    feature: String = ""
    error_code: Int16 = 0
    error_message: NullableString = ""
