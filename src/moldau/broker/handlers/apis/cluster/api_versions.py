"""ApiVersions, versions 0-4: what this broker serves, read from the handler table.

    v3  flexible; the client says which software it is
    v4  (KIP-1022) ranges that begin at 0 are shown in full

The response header never has tagged fields, so that a client can read an answer in a version it does not
know; and a version this broker does not know is answered in version 0 (server/dispatch.py). Features stand in
tagged fields, which librdkafka before 2.3 misreads here: they are shown from version 4 on, which it does not
speak. They are Kafka's (metadata/features.py), and Moldau's metadata level (metadata/levels.py). As in Kafka,
one at level 0 is not among the finalized ones. Produce is shown from version 0, although 0 to 2 are refused:
librdkafka concludes from a higher minimum that the broker knows no compression (KAFKA-18659).
"""

import re

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.registry import TABLE, handles
from moldau.broker.metadata.features import SUPPORTED, level_of
from moldau.broker.metadata.levels import FEATURE, LEVEL_MAX, LEVEL_MIN
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_PRODUCE = 0
_SOFTWARE_FROM = 3
_FEATURES_FROM = 4
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")  # KIP-511


def advertised() -> list[ApiVersion]:
    """Every API that is served, with its range of versions."""
    return [
        ApiVersion(
            api_key=key,
            min_version=0 if key == _PRODUCE else entry.min_version,
            max_version=entry.max_version,
        )
        for key, entry in sorted(TABLE.items())
    ]


@handles(ApiVersionsRequest)
def api_versions(broker: Broker, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.api_version >= _SOFTWARE_FROM:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.session.software_name, context.session.software_version = name, version
    response = ApiVersionsResponse(api_keys=advertised())
    if context.api_version >= _FEATURES_FROM:
        response.supported_features = [
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in SUPPORTED.items()
        ]
        response.supported_features.append(
            SupportedFeatureKey(name=FEATURE, min_version=LEVEL_MIN, max_version=LEVEL_MAX)
        )
        image = broker.metadata.image
        finalized = {**{name: level_of(image, name) for name in SUPPORTED}, FEATURE: image.level}
        response.finalized_features = [
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in finalized.items()
            if level
        ]
        response.finalized_features_epoch = image.version
    return response
