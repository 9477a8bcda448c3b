"""Headers of requests and responses, and error codes."""

import importlib
import pkgutil

import pytest
from kio.schema.errors import ErrorCode as OracleErrorCode

import moldau.common.protocol.messages
from moldau.common.protocol import frames
from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.frames import RequestHeader, parse_request_header
from moldau.common.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from moldau.common.protocol.wire import MalformedMessage


def requests() -> list[type[Message]]:
    package = moldau.common.protocol.messages
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return [
        cls
        for cls in Message.__subclasses__()
        if hasattr(cls, "RESPONSE") and cls.__module__.startswith("moldau.") and ".own." not in cls.__module__
    ]


def test_the_header_table_agrees_with_the_messages():
    assert len(requests()) == 73
    for cls in requests():
        for version in range(cls.VERSIONS[1] + 1):
            assert frames.is_flexible(cls.KEY, version) == cls.is_flexible(version)


def test_an_inflexible_header():
    frame = b"\0\x0c\0\x03\0\0\0\x07\0\x02meBODY"
    assert parse_request_header(frame) == RequestHeader(12, 3, 7, "me", 12)
    assert parse_request_header(memoryview(frame)) == RequestHeader(12, 3, 7, "me", 12)
    assert parse_request_header(b"\0\x0c\0\x03\0\0\0\x07\xff\xff") == RequestHeader(12, 3, 7, "", 10)


def test_a_flexible_header_with_tags():
    assert parse_request_header(b"\0\x0c\0\x04\0\0\0\x07\0\x02me\x01\x05\x01xBODY").body_offset == 16


def test_a_request_both_ways():
    frame = frames.frame_request(18, 3, -5, None, b"BODY")
    assert frame == b"\0\0\0\x0f\0\x12\0\x03\xff\xff\xff\xfb\xff\xff\0BODY"
    assert frame[4 + parse_request_header(frame[4:]).body_offset :] == b"BODY"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x0c\0\x03\0\0\0\x07\0",
        b"\0\x0c\0\x03\0\0\0\x07\0\x05me",
        b"\0\x0c\0\x03\0\0\0\x07\xff\xfe",
        b"\0\x0c\0\x03\0\0\0\x07\0\x01\xff",
        b"\0\x0c\0\x04\0\0\0\x07\0\0",
        b"\0\x0c\0\x04\0\0\0\x07\0\0\xff\xff\xff\xff\x07",
        b"\0\x0c\0\x04\0\0\0\x07\0\0\x01\x00\x05ab",
        b"\0\x0c\0\x04\0\0\0\x07\0\0\x01\x80\x80",
    ],
)
def test_headers_that_lie(frame):
    with pytest.raises(MalformedMessage):
        parse_request_header(frame)


def test_responses():
    assert frames.frame_response(7, False, b"BODY") == b"\0\0\0\x08\0\0\0\x07BODY"
    assert frames.frame_response(7, True, b"BODY") == b"\0\0\0\x09\0\0\0\x07\0BODY"
    assert frames.has_tagged_response_header(12, 4)
    assert not frames.has_tagged_response_header(12, 3)
    assert not frames.has_tagged_response_header(18, 3)


def test_an_api_versions_answer_has_no_tagged_fields_unless_asked():
    """librdkafka 2.0 steps over tagged fields wrongly, so there must be none to step over."""
    body = ApiVersionsResponse(api_keys=[ApiVersion(api_key=0, min_version=0, max_version=13)]).encode(3)
    assert body == b"\0\0\x02\0\0\0\0\0\x0d\0\0\0\0\0\0"
    assert ApiVersionsRequest.RESPONSE is ApiVersionsResponse


def test_error_codes_are_the_oracles():
    ours = {(int(code), code.name, code.retriable) for code in ErrorCode}
    assert ours == {(int(code), code.name.upper(), code.retriable) for code in OracleErrorCode}
    assert ErrorCode(0) is ErrorCode.NONE
    assert ErrorCode.NOT_COORDINATOR == 16
    assert all(code.message.endswith(".") for code in ErrorCode)
