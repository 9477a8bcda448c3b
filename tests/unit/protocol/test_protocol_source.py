"""Tracebacks of generated codecs: they name the message and show the line that failed."""

from __future__ import annotations

import linecache
import traceback

import pytest

from moldau.common.protocol.compiler import (
    decoder_of,
    encoder_of,
    sliced_decoder_of,
    sliced_encoder_of,
)
from moldau.common.protocol.messages.heartbeat import HeartbeatRequest
from moldau.common.protocol.wire import MalformedMessage

MESSAGE = "moldau.common.protocol.messages.heartbeat.HeartbeatRequest"


def text_of(failure: BaseException) -> str:
    return "".join(traceback.format_exception(failure))


def test_a_decoder_shows_its_source() -> None:
    with pytest.raises(MalformedMessage) as failure:
        decoder_of(HeartbeatRequest, 3)(b"\x00\x01g", 0)  # the group id, and nothing of the generation id
    text = text_of(failure.value)
    assert f'File "<generated decoder of {MESSAGE} v3>", line ' in text
    assert "m.generation_id, n, = " in text


def test_an_encoder_shows_its_source() -> None:
    request = HeartbeatRequest(group_id="g", generation_id="not a number", member_id="m")
    with pytest.raises(ValueError, match="HeartbeatRequest v3") as failure:
        encoder_of(HeartbeatRequest, 3)(request)
    text = text_of(failure.value)
    assert f'File "<generated encoder of {MESSAGE} v3>", line ' in text
    assert "m.generation_id" in text


def test_a_constructor_shows_its_source() -> None:
    del HeartbeatRequest(group_id="g").group_id  # compiles it, whoever ran before
    lines = linecache.getlines(f"<generated constructor of {MESSAGE}>")
    assert "    self.group_id = group_id\n" in lines


def test_each_form_of_each_version_has_a_source_of_its_own() -> None:
    for version in (2, 4):
        decoder_of(HeartbeatRequest, version)
        sliced_decoder_of(HeartbeatRequest, version)
        encoder_of(HeartbeatRequest, version)
        sliced_encoder_of(HeartbeatRequest, version)
    kinds = ("decoder", "sliced decoder", "encoder", "sliced encoder")
    names = [f"<generated {kind} of {MESSAGE} v{version}>" for kind in kinds for version in (2, 4)]
    sources = ["".join(linecache.getlines(name)) for name in names]
    assert all(sources)
    assert len(set(sources)) == len(names)


def test_linecache_keeps_the_source_when_it_looks_for_changed_files() -> None:
    decoder_of(HeartbeatRequest, 3)
    linecache.checkcache()
    assert linecache.getlines(f"<generated decoder of {MESSAGE} v3>")
