"""Headers that somebody else wrote, under the kit's names: no error, and no position or address either."""

import pytest

from moldau.kit.requests.headers import CORRELATION, REPLY_PARTITION, REPLY_TOPIC, address_of
from moldau.kit.resuming_position import HEADER, Mark, mark_of


class Record:
    """A record with these headers."""

    def __init__(self, *headers):
        self._headers = list(headers)

    def headers(self):
        return self._headers


class NoText:
    """A record with a header whose name is no UTF-8."""

    def headers(self):
        return b"\xff".decode()

    def set_headers(self, headers):
        self.replaced = headers


@pytest.mark.parametrize(
    "content",
    [b"5", b"null", b"{}", b'"abcd"', b"[1, 2, 3]", b'["s", true, 1, 2]', b'["s", "1", 1, 2]', b"\xff", b"",
     b"[" * 100_000, b"1" * 10_000, None],
)  # fmt: skip
def test_what_is_no_mark_is_none(content):
    assert mark_of(Record((HEADER, content))) is None


def test_a_mark_is_found_among_others():
    mark = Mark("s", 7, {"line": 3}, None)
    assert mark_of(Record(("other", b"x"), (HEADER, mark.encode()))) == mark


def test_names_that_are_no_text_are_nobodys():
    assert mark_of(NoText()) is None
    assert address_of(NoText()) is None


@pytest.mark.parametrize(
    ("topic", "partition"), [(b"t", b"-1"), (b"t", b"x"), (b"t", b"9" * 5000), (b"", b"0"), (b"\xff", b"0")]
)
def test_an_address_is_a_place_that_a_reply_can_go_to(topic, partition):
    assert address_of(Record((CORRELATION, b"c"), (REPLY_TOPIC, topic), (REPLY_PARTITION, partition))) is None
