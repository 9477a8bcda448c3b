"""Internal topics that cannot be made: the cause is logged once; settings that forbid them are refused."""

import asyncio
import errno
import logging
import random
from pathlib import Path

import pytest

from moldau.broker.controller.controller import Controller
from moldau.broker.metadata.embedded import EmbeddedStore
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from moldau.broker.metadata.view import MetadataView
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import from_texts


@pytest.mark.parametrize("name", ["offsets.topic.segment.bytes", "transaction.state.log.segment.bytes"])
def test_a_segment_size_that_no_topic_may_have_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(SettingError, match=r"Value must be at least 1048576"):
        from_texts({name: "1048575"})
    assert from_texts({name: "1048576"}).texts[name] == "1048576"


@pytest.mark.parametrize("topic", [GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC])
def test_why_an_internal_topic_cannot_be_made_is_logged_once_for_each_cause(
    tmp_path: Path, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        store = EmbeddedStore(tmp_path)
        controller = Controller(1, store, MetadataView(), from_texts({}), random.Random(3))
        await controller.this_broker.open()
        await controller.this_broker.register({"PLAINTEXT": ("127.0.0.1", 9092)})

        async def full(data: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(store, "_write", full)
            for _ in range(3):
                await controller.auto_create_topics([topic])
            await controller.auto_create_topics(["flights"])
        told = [r.getMessage() for r in caplog.records if r.name == "moldau.controller"]
        (line,) = [each for each in told if "cannot be created" in each]
        assert topic in line
        assert "No space left on device" in line
        assert not any(record.exc_info for record in caplog.records)
        await controller.auto_create_topics([topic])
        assert topic in controller.view.image.topics
        await controller.auto_create_topics([topic])  # it exists: nothing to tell
        assert len([r for r in caplog.records if "cannot be created" in r.getMessage()]) == 1
        await controller.this_broker.close()

    with caplog.at_level(logging.INFO):
        asyncio.run(scene())
