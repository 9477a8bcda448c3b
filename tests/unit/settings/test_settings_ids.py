"""Ids: their text form, and what a random one must not be."""

import random

import pytest

from moldau.common.core.ids import ZERO_UUID, random_uuid, uuid_from_text, uuid_to_text


def test_text_and_back():
    raw = bytes(range(16))
    assert uuid_to_text(raw) == "AAECAwQFBgcICQoLDA0ODw"
    assert uuid_from_text("AAECAwQFBgcICQoLDA0ODw") == raw
    assert uuid_to_text(ZERO_UUID) == "A" * 22


@pytest.mark.parametrize("text", ["", "AAAA", "!" * 22, "A" * 23])
def test_what_is_no_id(text):
    with pytest.raises(ValueError, match="is not an id"):
        uuid_from_text(text)


def test_random_ids_differ_and_never_start_with_a_dash():
    source = random.Random(1)
    ids = {random_uuid(source) for _ in range(2000)}
    assert len(ids) == 2000
    assert not any(uuid_to_text(raw).startswith("-") for raw in ids)
    assert all(raw[6] >> 4 == 4 for raw in ids)
