"""HttpSource against a real server, in each of its modes; a source started anew goes on where it stood."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest
from local_interface import Asked, Interface, interface
from sink_batches import settings_of

from moldau.connect import ConnectError, Read, SourceContext
from moldau.connect.connectors.http.source import HttpSource

ITEMS = [{"id": number} for number in range(10)]


@pytest.fixture
def served() -> Iterator[Interface]:
    with interface() as served:
        yield served


def started(served: Interface, **settings: Any) -> HttpSource:
    given = {"url": f"{served.url}/items", "request.interval.ms": 0, **settings}
    source = HttpSource()
    context = SourceContext("c", 0, lambda: False, lambda seconds: False, lambda: None)
    source.start(settings_of(HttpSource, given), context)
    return source


def read(source: HttpSource, count: int, offset: Mapping[str, Any] | None = None) -> tuple[list[Any], Any]:
    """The first `count` values after an offset, and the offset after them."""
    values: list[Any] = []
    (partition,) = source.partitions()
    for found in source.read(partition, offset):
        if isinstance(found, Read):
            for batch in found.batches:
                values += batch.value.values
            offset = found.offset
        if len(values) >= count:
            break
    return values, offset


def query(asked: Asked) -> dict[str, Sequence[str]]:
    return dict(parse_qs(urlsplit(asked.path).query))


def page(items: Sequence[Any], **more: Any) -> tuple[int, Mapping[str, str], bytes]:
    return 200, {}, orjson.dumps({"data": {"items": items}, **more})


DATA = {"http.response.data.json.pointer": "/data/items"}


def test_a_number_that_counts_records(served: Interface) -> None:
    served.answer = lambda asked: page(ITEMS[int(query(asked)["from"][0]) :][:3])
    settings = {**DATA, "http.request.parameters": "from=${offset}", "http.initial.offset": "2"}
    values, offset = read(started(served, **settings), 6)
    assert (values, offset) == (ITEMS[2:8], {"offset": "8"})
    assert read(started(served, **settings), 2, offset)[0] == ITEMS[8:]


def test_chaining_takes_the_offset_from_the_last_record(served: Interface) -> None:
    served.answer = lambda asked: page([x for x in ITEMS if x["id"] > int(query(asked)["after"][0])][:4])
    settings = {
        **DATA,
        "http.offset.mode": "CHAINING",
        "http.offset.json.pointer": "/id",
        "http.initial.offset": "-1",
        "http.request.parameters": "after=${offset}",
        "key.json.pointer": "/id",
    }
    values, offset = read(started(served, **settings), 10)
    assert (values, offset) == (ITEMS, {"offset": "9"})


def test_a_cursor_and_of_the_last_page_what_is_new(served: Interface) -> None:
    pages = {"": (ITEMS[:4], "p2"), "p2": (ITEMS[4:6], None)}

    def answer(asked: Asked) -> Any:
        items, following = pages[query(asked).get("cursor", [""])[0]]
        return page(items, next=following)

    served.answer = answer
    settings = {
        **DATA,
        "http.offset.mode": "CURSOR_PAGINATION",
        "http.next.page.json.pointer": "/next",
        "http.request.parameters": "cursor=${offset}",
    }
    source = started(served, **settings)
    values, offset = read(source, 6)
    assert (values, offset) == (ITEMS[:6], {"offset": "p2", "taken": 2})
    pages["p2"] = (ITEMS[4:9], "p3")
    pages["p3"] = (ITEMS[9:], None)
    values, offset = read(started(served, **settings), 4, offset)
    assert (values, offset) == (ITEMS[6:], {"offset": "p3", "taken": 1})


def test_a_cursor_may_be_an_address(served: Interface) -> None:
    def answer(asked: Asked) -> Any:
        if asked.path == "/items":
            return page(ITEMS[:5], next=f"{served.url}/more?x=1")
        return page(ITEMS[5:])

    served.answer = answer
    settings = {**DATA, "http.offset.mode": "CURSOR_PAGINATION", "http.next.page.json.pointer": "/next"}
    assert read(started(served, **settings), 10)[0] == ITEMS
    assert served.asked[-1].path == "/more?x=1"


def test_a_page_elsewhere_is_not_asked_for(served: Interface) -> None:
    served.answer = lambda asked: page(ITEMS[:5], next="https://elsewhere.example/steal")
    settings = {**DATA, "http.offset.mode": "CURSOR_PAGINATION", "http.next.page.json.pointer": "/next"}
    with pytest.raises(ConnectError, match=r"names a page at https://elsewhere\.example"):
        read(started(served, **settings), 10)


def test_entities_are_read_by_their_names(served: Interface) -> None:
    served.answer = lambda asked: page([asked.path])
    source = started(
        served,
        **DATA,
        **{
            "url": f"{served.url}/${{entityName}}",
            "entity.names": ["a", "b"],
            "topic.name.pattern": "t-${entityName}",
        },
    )
    topics = []
    for partition in source.partitions():
        found = next(source.read(partition, None))
        assert isinstance(found, Read)
        topics.append((found.batches[0].topic, found.batches[0].value.values))
    assert topics == [("t-a", ["/a"]), ("t-b", ["/b"])]


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"<html>", "the answer is no JSON"), (b'{"data": 1}', r"http\.response\.data\.json\.pointer")],
)
def test_answers_that_do_not_fit_are_told(served: Interface, body: bytes, message: str) -> None:
    served.answer = lambda asked: (200, {}, body)
    with pytest.raises(ConnectError, match=message):
        read(started(served, **DATA), 1)


def test_contradictions_are_named(served: Interface) -> None:
    source = HttpSource()
    for given, name in (
        ({"http.offset.mode": "CHAINING"}, "http.offset.json.pointer"),
        ({"http.offset.mode": "CURSOR_PAGINATION"}, "http.next.page.json.pointer"),
        ({"http.initial.offset": "yesterday"}, "http.initial.offset"),
    ):
        assert list(source.check(settings_of(HttpSource, {"url": served.url, **given}))) == [name]
    with pytest.raises(ConnectError):
        source.check_offsets({"position": 4})
