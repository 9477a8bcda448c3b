"""HttpSink against a real server: what is sent, and what becomes of each answer."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from local_interface import Interface, interface
from sink_batches import json_batch, settings_of, sink_context, tombstones

from moldau.connect import BadRecord, ConnectError, Retriable
from moldau.connect.connectors.http.sink import HttpSink


@pytest.fixture
def served() -> Iterator[Interface]:
    with interface() as served:
        yield served


class Started:
    def __init__(self, served: Interface, tolerant: bool = True, **settings: Any) -> None:
        self.bad: list[str] = []
        self.waited: list[float] = []
        self.sink = HttpSink()
        context = sink_context(self.bad if tolerant else None, self.waited)
        given = {"http.api.url": f"{served.url}/${{topic}}", **settings}
        self.sink.start(settings_of(HttpSink, given), context)

    def write(self, batch: Any) -> None:
        self.sink.write(batch, batch.offsets[0].as_py())


def test_a_request_a_record_with_a_key_that_names_it(served: Interface) -> None:
    Started(served, headers="X-Team: flights").write(json_batch([{"id": 1}, {"id": 2}], first=7))
    assert [asked.body for asked in served.asked] == [b'{"id":1}', b'{"id":2}']
    assert [asked.headers["Idempotency-Key"] for asked in served.asked] == ["orders-0-7", "orders-0-8"]
    assert {asked.path for asked in served.asked} == {"/orders"}
    assert {asked.headers["X-Team"] for asked in served.asked} == {"flights"}


def test_many_records_a_request_as_an_array(served: Interface) -> None:
    started = Started(served, **{"batch.max.size": 2, "batch.json.as.array": True})
    started.write(json_batch([{"id": number} for number in range(5)]))
    assert [orjson.loads(asked.body) for asked in served.asked] == [
        [{"id": 0}, {"id": 1}],
        [{"id": 2}, {"id": 3}],
        [{"id": 4}],
    ]


def test_tombstones_are_left_out_or_sent_as_deletions(served: Interface) -> None:
    Started(served).write(tombstones(["a"]))
    assert served.asked == []
    url = f"{served.url}/items/${{key}}"
    Started(served, **{"http.api.url": url, "behavior.on.null.values": "delete"}).write(tombstones(["a/b"]))
    assert [(asked.method, asked.path) for asked in served.asked] == [("DELETE", "/items/a%2Fb")]


def test_what_may_succeed_later_is_retriable_after_the_time_asked_for(served: Interface) -> None:
    served.answer = lambda asked: (429, {"Retry-After": "7"}, b"slow down")
    started = Started(served)
    with pytest.raises(Retriable, match="was answered 429: slow down"):
        started.write(json_batch([{"id": 1}]))
    assert started.waited == [7.0]


def test_one_wrong_record_of_a_request_is_found_and_the_others_are_sent(served: Interface) -> None:
    served.answer = lambda asked: (422 if b"13" in asked.body else 200, {}, b"no 13")
    started = Started(served, **{"batch.max.size": 10, "batch.json.as.array": True})
    started.write(json_batch([{"id": 12}, {"id": 13}, {"id": 14}]))
    assert [text.partition(":")[0] for text in started.bad] == ["1"]
    assert [orjson.loads(asked.body) for asked in served.asked[1:]] == [
        [{"id": 12}],
        [{"id": 13}],
        [{"id": 14}],
    ]


def test_without_tolerance_a_wrong_record_ends_the_write(served: Interface) -> None:
    served.answer = lambda asked: (400, {}, b"")
    with pytest.raises(BadRecord, match="was answered 400"):
        Started(served, tolerant=False).write(json_batch([1]))


def test_a_wrong_login_is_no_bad_record(served: Interface) -> None:
    served.answer = lambda asked: (401, {}, b"")
    with pytest.raises(ConnectError, match=r"look at auth\.type"):
        Started(served).write(json_batch([1]))


def test_nobody_there_is_retriable() -> None:
    with interface() as served:
        started = Started(served)
    with pytest.raises(Retriable):
        started.write(json_batch([1]))


def test_an_answer_without_end_is_cut(served: Interface) -> None:
    served.answer = lambda asked: (200, {}, b"x" * 4096)
    with pytest.raises(ConnectError, match=r"longer than http\.response\.bytes\.max"):
        Started(served, **{"http.response.bytes.max": 1024}).write(json_batch([1]))


def test_tokens_are_fetched_kept_and_fetched_again_after_a_refusal(served: Interface) -> None:
    tokens = iter(["first", "second"])

    def answer(asked: Any) -> Any:
        if asked.path == "/token":
            return 200, {}, orjson.dumps({"access_token": next(tokens), "expires_in": 3600})
        good = asked.headers["Authorization"] == f"Bearer {wanted[0]}"
        return 200 if good else 401, {}, b""

    served.answer = answer
    wanted = ["first"]
    oauth = {
        "auth.type": "OAUTH2",
        "oauth2.token.url": f"{served.url}/token",
        "oauth2.client.id": "me",
        "oauth2.client.secret": "secret",
    }
    started = Started(served, **oauth)
    started.write(json_batch([1, 2]))
    wanted[0] = "second"
    started.write(json_batch([3], first=2))
    assert [asked.path for asked in served.asked].count("/token") == 2


def test_requests_keep_a_rate(served: Interface) -> None:
    started = Started(served, **{"requests.per.second": 0.5})
    started.write(json_batch([1, 2]))
    assert len(started.waited) == 1
    assert 1.0 < started.waited[0] <= 2.0


def test_secrets_in_addresses_are_not_told(served: Interface) -> None:
    served.answer = lambda asked: (503, {}, b"")
    url = served.url.replace("http://", "http://user:secret@") + "/x?token=secret"
    with pytest.raises(Retriable) as told:
        Started(served, **{"http.api.url": url}).write(json_batch([1]))
    assert "secret" not in str(told.value)


def test_contradictions_are_named() -> None:
    given = {"http.api.url": "ftp://x/${key}", "batch.max.size": 5, "auth.type": "BASIC"}
    problems = HttpSink().check(settings_of(HttpSink, given))
    assert sorted(problems) == ["batch.max.size", "connection.password", "connection.user", "http.api.url"]
