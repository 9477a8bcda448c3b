"""Requests to another broker: every way in which no response comes ends in PeerError, once, and in time."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from itertools import pairwise

import pytest
from peer_world import FRAME_BYTES_MAX, Here, image, turns

from moldau.broker.peers.peers import PeerError
from moldau.common.protocol.frames import frame_response, parse_request_header
from moldau.common.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.common.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)


def on_a_loop(test: Callable[[Here], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        here = Here()
        await test(here)
        here.peers.close()
        await turns()

    @wraps(test)
    def plain() -> None:
        asyncio.run(run())

    del plain.__wrapped__  # type: ignore[attr-defined]  # pytest would ask for its argument
    return plain


@on_a_loop
async def test_a_request_connects_greets_and_is_answered(here: Here) -> None:
    asked = here.ask()
    wire = await here.network.accept()
    assert parse_request_header(wire.sent[0]).client_id == "broker-1-test"
    wire.greet()
    header = parse_request_header(wire.sent[0])
    assert (header.api_key, header.api_version) == (EndTxnRequest.KEY, EndTxnRequest.VERSIONS[1])
    wire.respond(wire.sent.pop(), EndTxnResponse(error_code=51), piece_bytes=1)
    assert (await asked).error_code == 51


@on_a_loop
async def test_a_second_request_uses_the_same_connection(here: Here) -> None:
    wire = await here.opened()
    first, second = here.ask(), here.ask()
    wire.respond(wire.sent[0], EndTxnResponse(error_code=1))
    wire.respond(wire.sent[1], EndTxnResponse(error_code=2))
    assert ((await first).error_code, (await second).error_code) == (1, 2)
    assert not here.network.attempts


@on_a_loop
async def test_an_older_broker_is_asked_in_its_version(here: Here) -> None:
    asked = here.ask()
    wire = await here.network.accept()
    wire.greet(EndTxn=(0, 2))
    assert parse_request_header(wire.sent[0]).api_version == 2
    wire.respond(wire.sent.pop(), EndTxnResponse())
    await asked


@pytest.mark.parametrize(
    ("spoken", "said"), [((0, 2), "supports EndTxn in versions 0 to 2"), ((0, -1), "does not support EndTxn")]
)
def test_no_common_version_is_said_and_nothing_sent(spoken: tuple[int, int], said: str) -> None:
    @on_a_loop
    async def run(here: Here) -> None:
        asked = here.ask(version_min=3)
        wire = await here.network.accept()
        wire.greet(EndTxn=spoken)
        with pytest.raises(PeerError, match=said):
            await asked
        assert not wire.sent
        assert not wire.ended

    run()


@on_a_loop
async def test_a_broker_that_knows_an_older_api_versions_only(here: Here) -> None:
    asked = here.ask()
    wire = await here.network.accept()
    header = parse_request_header(wire.sent.pop(0))
    rows = b"\0\x23" + b"\0\0\0\1" + b"\0\x1a\0\0\0\2"  # error 35, EndTxn in versions 0 to 2
    wire.deliver(frame_response(header.correlation_id, False, rows))
    assert parse_request_header(wire.sent[0]).api_version == 2
    wire.respond(wire.sent.pop(), EndTxnResponse())
    await asked


@on_a_loop
async def test_a_refused_connection_fails_all_that_wait_and_the_next_attempt_comes_later(here: Here) -> None:
    asked = [here.ask(), here.ask()]
    await here.network.refuse()
    for each in asked:
        with pytest.raises(PeerError, match="Connection refused; the request was not sent"):
            await each
    again = here.ask()
    await turns()
    assert not here.network.attempts, "paused"
    await here.pass_ms(61)
    wire = await here.network.accept()
    wire.greet()
    wire.respond(wire.sent.pop(), EndTxnResponse())
    await again


@on_a_loop
async def test_the_pause_grows_and_falls_back_after_an_answer(here: Here) -> None:
    pauses = []
    for _ in range(7):
        asked = here.ask(timeout_ms=10_000)
        passed = 0
        await turns()
        while not here.network.attempts:
            await here.pass_ms(5)
            passed += 5
        pauses.append(passed)
        await here.network.refuse()
        with pytest.raises(PeerError):
            await asked
    assert pauses[0] == 0
    for before, after in pairwise(pauses[1:6]):
        assert after > before
    assert 800 <= pauses[6] <= 1205
    await here.pass_ms(1500)
    wire = await here.opened()
    asked = here.ask()
    wire.lose()
    with pytest.raises(PeerError):
        await asked
    here.ask()
    await here.pass_ms(61)
    assert here.network.attempts


@on_a_loop
async def test_a_connection_that_takes_too_long_is_given_up(here: Here) -> None:
    asked = here.ask(timeout_ms=60_000)
    await turns()
    await here.pass_ms(9_999)
    assert not asked.done()
    await here.pass_ms(1)
    with pytest.raises(PeerError, match="no connection within 10000 ms"):
        await asked
    assert here.network.attempts.pop()[1].cancelled()


@on_a_loop
async def test_a_broker_that_accepts_and_says_nothing_is_given_up(here: Here) -> None:
    asked = here.ask(timeout_ms=60_000)
    wire = await here.network.accept()
    await here.pass_ms(10_000)
    with pytest.raises(PeerError, match="no connection within"):
        await asked
    assert wire.ended


@on_a_loop
async def test_a_slow_connection_that_comes_after_the_timeout_serves_the_next_request(here: Here) -> None:
    asked = here.ask(timeout_ms=100)
    await turns()
    await here.pass_ms(100)
    with pytest.raises(PeerError, match="no connection within 100 ms; the request was not sent"):
        await asked
    wire = await here.network.accept()
    wire.greet()
    assert not wire.sent
    again = here.ask()
    wire.respond(wire.sent.pop(), EndTxnResponse())
    await again


@on_a_loop
async def test_a_close_in_the_middle_of_a_response_fails_all_in_flight(here: Here) -> None:
    wire = await here.opened()
    asked = [here.ask(), here.ask()]
    wire.deliver(b"\0\0\1\0" + b"\0\0\0\2")
    wire.lose(ConnectionResetError(104, "Connection reset by peer"))
    for each in asked:
        with pytest.raises(PeerError, match="reset by peer"):
            await each


@on_a_loop
async def test_a_late_response_is_dropped_and_the_connection_goes_on(here: Here) -> None:
    wire = await here.opened()
    slow, quick = here.ask(timeout_ms=100), here.ask(timeout_ms=1000)
    assert not slow.done()
    other = here.ask(timeout_ms=1000)
    wire.respond(wire.sent[1], EndTxnResponse(error_code=7))  # something comes, so it is alive
    assert (await quick).error_code == 7
    await here.pass_ms(100)
    with pytest.raises(PeerError, match="no response within 100 ms"):
        await slow
    wire.respond(wire.sent[0], EndTxnResponse(error_code=1))
    wire.respond(wire.sent[2], EndTxnResponse(error_code=2))
    assert (await other).error_code == 2
    assert not wire.ended


@on_a_loop
async def test_a_connection_over_which_nothing_comes_is_given_up_with_the_first_timeout(here: Here) -> None:
    wire = await here.opened()
    first, second = here.ask(timeout_ms=100), here.ask(timeout_ms=5000)
    await here.pass_ms(100)
    for each in (first, second):
        with pytest.raises(PeerError):
            await each
    assert wire.ended
    again = here.ask()
    await here.pass_ms(61)
    fresh = await here.network.accept()
    fresh.greet()
    fresh.respond(fresh.sent.pop(), EndTxnResponse())
    await again


@on_a_loop
async def test_a_response_to_no_request_ends_the_connection(here: Here) -> None:
    wire = await here.opened()
    asked = here.ask()
    wire.deliver(frame_response(12345, True, EndTxnResponse().encode(5)))
    with pytest.raises(PeerError, match="which no request had"):
        await asked
    assert wire.ended


@pytest.mark.parametrize("size_bytes", [-1, 0, 3, FRAME_BYTES_MAX + 1, 0x48545450])
def test_a_size_that_no_response_has_ends_the_connection(size_bytes: int) -> None:
    @on_a_loop
    async def run(here: Here) -> None:
        wire = await here.opened()
        asked = here.ask()
        wire.deliver(size_bytes.to_bytes(4, "big", signed=True) + b"more")
        with pytest.raises(PeerError, match="cannot be read"):
            await asked
        assert wire.ended

    run()


@on_a_loop
async def test_a_damaged_body_ends_the_connection(here: Here) -> None:
    wire = await here.opened()
    asked = here.ask()
    header = parse_request_header(wire.sent[0])
    wire.deliver(frame_response(header.correlation_id, True, b"\0"))
    with pytest.raises(PeerError, match="cannot be read"):
        await asked


@on_a_loop
async def test_an_idle_connection_that_is_closed_is_made_again_at_once(here: Here) -> None:
    wire = await here.opened()
    wire.lose()
    again = here.ask()
    fresh = await here.network.accept()
    fresh.greet()
    fresh.respond(fresh.sent.pop(), EndTxnResponse())
    await again


@on_a_loop
async def test_a_broker_that_was_registered_anew_is_connected_anew(here: Here) -> None:
    for broker_epoch, port in ((2, 9092), (2, 9093)):
        wire = await here.opened()
        asked = here.ask()
        here.image = image(broker_epoch, port)
        here.peers.image_changed(here.image)
        with pytest.raises(PeerError, match="registered anew"):
            await asked
        assert wire.ended
    again = here.ask()
    await turns()
    assert here.network.attempts[0][0] == ("host2", 9093)
    again.cancel()


@on_a_loop
async def test_a_broker_that_went_is_not_asked(here: Here) -> None:
    wire = await here.opened()
    asked = here.ask()
    here.image = image(1, node_ids=(1,))
    here.peers.image_changed(here.image)
    for each in (asked, here.ask()):
        with pytest.raises(PeerError, match="is not registered"):
            await each
    assert wire.ended


@on_a_loop
async def test_a_request_that_nobody_waits_for_disturbs_nothing(here: Here) -> None:
    wire = await here.opened()
    gone, other = here.ask(), here.ask()
    gone.cancel()
    wire.respond(wire.sent[0], EndTxnResponse(error_code=1))
    wire.respond(wire.sent[1], EndTxnResponse(error_code=2))
    assert (await other).error_code == 2
    await here.pass_ms(10_000)
    assert not wire.ended


@on_a_loop
async def test_closing_fails_everything_and_sends_nothing_more(here: Here) -> None:
    wire = await here.opened()
    asked = here.ask()
    here.peers.close()
    for each in (asked, here.ask()):
        with pytest.raises(PeerError, match="stopping"):
            await each
    assert wire.ended


@on_a_loop
async def test_a_close_while_connecting_calls_the_attempt_off(here: Here) -> None:
    asked = here.ask()
    await turns()
    here.peers.close()
    await turns()
    with pytest.raises(PeerError, match="stopping"):
        await asked
    assert here.network.attempts.pop()[1].cancelled()


@on_a_loop
async def test_a_large_response_is_decoded_in_slices_and_a_raw_one_not_at_all(here: Here) -> None:
    wire = await here.opened()
    records = bytes(range(256)) * 1000
    rows = [PartitionData(partition_index=index, records=records[:700]) for index in range(300)]
    answer = FetchResponse(responses=[FetchableTopicResponse(topic_id=b"x" * 16, partitions=rows)])
    decoded = here.peers.send(2, FetchRequest(), timeout_ms=1000)
    wire.respond(wire.sent.pop(), answer, piece_bytes=10_000)
    found = await decoded
    assert [len(row.records) for row in found.responses[0].partitions] == [700] * 300

    for _ in range(3):  # the memory of each is used for the next
        raw = here.peers.send_raw(2, FetchRequest(), timeout_ms=1000)
        wire.respond(wire.sent.pop(), answer, piece_bytes=100_000)
        response = await raw
        assert FetchResponse.decode(response.frame, response.version, response.body_offset) == found
        here.peers.give_back(2, response)


@on_a_loop
async def test_a_long_request_is_encoded_in_slices(here: Here) -> None:
    wire = await here.opened()
    rows = [FetchPartition(partition=index) for index in range(5000)]
    request = FetchRequest(topics=[FetchTopic(topic_id=b"x" * 16, partitions=rows)])
    asked = here.peers.send(2, request, timeout_ms=1000)
    while not wire.sent:
        await turns()
    header = parse_request_header(wire.sent[0])
    assert FetchRequest.decode(wire.sent[0], header.api_version, header.body_offset) == request
    wire.respond(wire.sent.pop(), FetchResponse())
    await asked
