"""ApiVersions (key 18, versions 0-4): what a broker can do: API versions and features.

    v1   answer: throttle_time_ms
    v3   client_software_name and _version (KIP-511); answer: features (KIP-584); flexible
    v4   a supported feature's min_version may be 0 (KAFKA-17011)

Three things differ from all other APIs. The response header is version 0 (no tag section) in every version,
because a client must be able to read an answer to a version that the broker does not know. Such an answer is
in version 0, with error 35 and the whole table. And librdkafka before 2.2 steps one byte too few over each
tagged field (its pull request 4278), and fails on what then follows: an answer that such clients must read
writes no tagged fields, which means that all four are left at their defaults (a single one at the very end
would pass too).
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    array,
    message,
    response_to,
    since,
    tagged,
)


@message(key=18, versions=(0, 4), flexible_from=3)
class ApiVersionsRequest(Message):
    """The client's first question; from version 3 it says what software it is."""

    client_software_name: String = since(3, ignorable=True)
    client_software_version: String = since(3, ignorable=True)


@response_to(ApiVersionsRequest)
class ApiVersionsResponse(Message):
    """The versions of every API that is served, and cluster features."""

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = array()
    throttle_time_ms: Int32 = since(1, ignorable=True)
    supported_features: list[SupportedFeatureKey] = tagged(0, since=3, ignorable=True)
    finalized_features_epoch: Int64 = tagged(1, since=3, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = tagged(2, since=3, ignorable=True)
    zk_migration_ready: Bool = tagged(3, since=3, ignorable=True)


class ApiVersion(Struct):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Struct):
    name: String = since(3)
    min_version: Int16 = since(3)
    max_version: Int16 = since(3)


class FinalizedFeatureKey(Struct):
    name: String = since(3)
    max_version_level: Int16 = since(3)
    min_version_level: Int16 = since(3)
