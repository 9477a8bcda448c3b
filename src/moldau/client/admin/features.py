"""Features of a cluster and their levels (KIP-584): what its brokers support, and what is finalized."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.client.admin.problem import KafkaProblem, check
from moldau.client.admin.routing import ask_any, ask_broker, ask_controller, require_broker
from moldau.client.cluster import Cluster
from moldau.common.protocol.messages.api_versions import ApiVersionsRequest
from moldau.common.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


class Feature(NamedTuple):
    """The levels that a broker supports, and the cluster's (0: none)."""

    name: str
    lowest: int
    highest: int
    finalized: int


class Features(NamedTuple):
    """By name; `epoch` counts the changes of the finalized ones, None if the broker does not know them."""

    epoch: int | None
    features: tuple[Feature, ...]


def describe_features(cluster: Cluster, broker_id: int | None = None) -> Features:
    """The features as some broker, or this one, tells them. KafkaProblem if there is no such broker."""
    request = ApiVersionsRequest(client_software_name="moldau", client_software_version="admin")
    if broker_id is None:
        answer = ask_any(cluster, request, "describe the features")
    else:
        require_broker(cluster, broker_id)
        answer = ask_broker(cluster, broker_id, request, f"describe broker {broker_id}'s features")
    check(answer.error_code)
    final = {each.name: each.max_version_level for each in answer.finalized_features}
    epoch = answer.finalized_features_epoch
    found = (
        Feature(each.name, each.min_version, each.max_version, final.get(each.name, 0))
        for each in answer.supported_features
    )
    return Features(epoch if epoch >= 0 else None, tuple(sorted(found)))


def update_features(
    cluster: Cluster, levels: Mapping[str, int], kind: int = UPGRADE, *, validate_only: bool = False
) -> dict[str, KafkaProblem]:
    """Set the levels of features, 0 for none, or only check that they could be; why some were refused. An
    error of the whole request is every feature's.
    """
    rows = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level in levels.items()
    ]
    answer = ask_controller(
        cluster,
        UpdateFeaturesRequest(feature_updates=rows, validate_only=validate_only),
        lambda got: [got.error_code],
        "change features",
    )
    whole = (answer.error_code, answer.error_message)
    own = {each.feature: (each.error_code, each.error_message) for each in answer.results}
    told = {name: own[name] if own.get(name, (0, ""))[0] else whole for name in levels}
    return {name: KafkaProblem(code, reason) for name, (code, reason) in told.items() if code}
