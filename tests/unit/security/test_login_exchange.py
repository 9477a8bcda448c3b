"""Every state of a login with every frame: what is answered, what ends, what is refused late."""

import asyncio
from collections.abc import Awaitable

import pytest
from login_world import (
    World,
    api_versions,
    authenticate,
    authenticate_answer,
    handshake,
    handshake_answer,
    plain,
)

from moldau.broker.security.login.exchange import Earlier, Failed, GoesOn, LoggedIn, LoginError, State
from moldau.broker.security.login.steps import Accepted, Challenge, Denied, Offer, Step
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.frames import frame_request
from moldau.common.protocol.wire import uvarint

METADATA = frame_request(3, 1, 77, "test", b"\0\0\0\0")[4:]
PRODUCE = frame_request(0, 3, 77, "test", b"")[4:]
UNKNOWN_API = frame_request(9999, 0, 77, "test", b"")[4:]
GARBAGE = b"\x60\x82\x02"


def test_a_login_by_plain_with_every_version_of_authenticate() -> None:
    for version in (0, 1, 2):
        world = World()
        _, offer, last = world.logged(
            api_versions(), handshake("PLAIN"), authenticate(plain("alice", "alice-secret"), version)
        )
        assert handshake_answer(offer.frame).mechanisms == ["PLAIN"]
        assert isinstance(last, LoggedIn)
        answer = authenticate_answer(last.frame, version)
        assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, None, b"")
        assert last.accepted.principal == "User:alice"
        assert last.lifetime_ms is None


def test_api_versions_may_be_left_out_and_asked_again_only_when_not_understood() -> None:
    world = World()
    assert isinstance(world.logged(handshake("PLAIN"))[0], GoesOn)
    replies = world.logged(api_versions(9), api_versions(0), handshake("PLAIN"))
    assert [type(each) for each in replies] == [GoesOn, GoesOn, GoesOn]
    login = world.login()
    login.receive(api_versions(0))
    with pytest.raises(LoginError, match="API 18 before"):
        login.receive(api_versions(0))


@pytest.mark.parametrize("before", [[], [api_versions()]])
@pytest.mark.parametrize(
    "frame", [METADATA, PRODUCE, UNKNOWN_API, GARBAGE, b"", authenticate(b""), handshake("PLAIN")[:-3]]
)
def test_before_the_handshake_anything_else_ends_the_connection(before: list[bytes], frame: bytes) -> None:
    login = World().login()
    for each in before:
        login.receive(each)
    with pytest.raises(LoginError):
        login.receive(frame)


@pytest.mark.parametrize("frame", [PRODUCE, UNKNOWN_API, api_versions(), handshake("PLAIN")])
def test_another_request_during_the_exchange_is_refused(frame: bytes) -> None:
    login = World().login()
    login.receive(handshake("PLAIN"))
    refused = login.receive(frame)
    assert isinstance(refused, Failed)
    assert refused.frame == b"illegal"
    with pytest.raises(LoginError):
        login.receive(authenticate(plain("alice", "alice-secret")))


def test_an_api_without_a_place_for_the_error_gets_no_answer() -> None:
    (_, refused) = World().logged(handshake("PLAIN"), METADATA)
    assert isinstance(refused, Failed)
    assert refused.frame is None


@pytest.mark.parametrize("version", [3, -1, 32767])
def test_an_unknown_version_of_authenticate_ends_the_connection(version: int) -> None:
    login = World().login()
    login.receive(handshake("PLAIN"))
    with pytest.raises(LoginError):
        login.receive(frame_request(36, version, 77, "test", b"\0\0\0\0")[4:])


def test_an_unknown_version_of_the_handshake_ends_the_connection() -> None:
    with pytest.raises(LoginError, match="SaslHandshake in version 2"):
        World().login().receive(frame_request(17, 2, 77, "test", b"\0\5PLAIN")[4:])


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("name", ["plain", "", "SCRAM-SHA-256", "PLAIN\0", "X" * 3_000])
def test_a_mechanism_that_is_not_offered(name: str, version: int) -> None:
    (failed,) = World().logged(handshake(name, version))
    assert isinstance(failed, Failed)
    answer = handshake_answer(failed.frame, version)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["PLAIN"])
    assert name not in failed.reason or not name


def test_after_a_handshake_of_version_0_tokens_come_bare() -> None:
    world = World()
    login = world.login()
    login.receive(handshake("PLAIN", 0))
    assert login.takes_bare_tokens
    last = login.receive(plain("bob", "bob-secret"))
    assert isinstance(last, LoggedIn)
    assert last.frame == b"\0\0\0\0"  # an empty token
    assert last.accepted.principal == "User:bob"
    _, failed = world.logged(handshake("PLAIN", 0), plain("bob", "alice-secret"))
    assert isinstance(failed, Failed)
    assert failed.frame is None  # a bare token has no place for an error


def test_a_framed_request_is_no_bare_token() -> None:
    _, failed = World().logged(handshake("PLAIN", 0), authenticate(plain("bob", "bob-secret")))
    assert isinstance(failed, Failed)


def _tagged(count: int) -> bytes:
    """A section of tagged fields, which a decoder takes a microsecond each for."""
    return uvarint(count) + b"".join(uvarint(tag) + b"\0" for tag in range(1, count + 1))


@pytest.mark.parametrize(
    ("before", "frame"),
    [
        ([], frame_request(18, 3, 1, "c", b"\2a\2b" + _tagged(100_000))[4:]),
        ([], frame_request(18, 0, 1, "c", bytes(9_000))[4:]),
        ([api_versions()], frame_request(17, 1, 1, "c", b"\0\5PLAIN" + bytes(9_000))[4:]),
        ([handshake("PLAIN")], frame_request(36, 2, 1, "c", b"\2x" + _tagged(100_000))[4:]),
        ([handshake("PLAIN")], frame_request(36, 2, 1, "c", b"\xff\xff\xff\xff\x0f")[4:]),
        ([handshake("PLAIN")], frame_request(36, 2, 1, "c", b"\xff")[4:]),
    ],
)
def test_what_would_take_long_to_decode_is_not_decoded(before: list[bytes], frame: bytes) -> None:
    login = World().login()
    for each in before:
        login.receive(each)
    with pytest.raises(LoginError):
        login.receive(frame)


def test_a_long_token_is_taken() -> None:
    token = b"\0alice\0" + b"x" * 400_000
    for version in (0, 1, 2):
        _, failed = World().logged(handshake("PLAIN"), authenticate(token, version))
        assert authenticate_answer(failed.frame, version).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_wrong_names_and_passwords_are_answered_alike() -> None:
    answers = set()
    for token in (plain("alice", "wrong"), plain("nobody", "wrong"), plain("nobody", "alice-secret")):
        _, failed = World().logged(handshake("PLAIN"), authenticate(token))
        assert isinstance(failed, Failed)
        answers.add((failed.frame, failed.reason))
    ((frame, _),) = answers
    answer = authenticate_answer(frame)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"


def test_the_usual_sentence_names_the_mechanism_and_nothing_else() -> None:
    _, failed = World().logged(handshake("PLAIN"), authenticate(b"\0\0"))
    assert authenticate_answer(failed.frame).error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
    )


# How long a login lasts, and re-authentication


class Scripted:
    """A mechanism of given steps."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)

    def step(self, token: bytes) -> Step:
        return self.steps.pop(0)


@pytest.mark.parametrize(
    ("credential_ms", "setting_ms", "lifetime_ms"),
    [
        (None, 0, None),
        (None, 5000, 5000),
        (3000, 0, 3000),
        (3000, 5000, 3000),
        (9000, 5000, 5000),
        (-1, 0, 0),
    ],
)
def test_the_lifetime_is_the_shorter_of_setting_and_credential(
    credential_ms: int | None, setting_ms: int, lifetime_ms: int | None
) -> None:
    world = World()
    now_ms = world.clock.now_ms()
    ends_ms = None if credential_ms is None else now_ms + credential_ms
    accepted = Accepted("User:alice", b"", ends_ms)
    world.offered = {"X": Offer(lambda: Scripted(Challenge(b"more"), accepted), setting_ms)}
    _, challenge, last = world.logged(handshake("X"), authenticate(b"", 0), authenticate(b"", 1))
    assert authenticate_answer(challenge.frame, 0).auth_bytes == b"more"
    assert isinstance(last, LoggedIn)
    assert last.lifetime_ms == lifetime_ms
    assert authenticate_answer(last.frame, 1).session_lifetime_ms == (lifetime_ms or 0)


def test_re_authentication_keeps_the_principal() -> None:
    world = World()
    again = Earlier("PLAIN", "User:alice")
    _, same = world.logged(handshake("PLAIN"), authenticate(plain("alice", "alice-secret")), earlier=again)
    assert isinstance(same, LoggedIn)
    _, other = world.logged(handshake("PLAIN"), authenticate(plain("bob", "bob-secret")), earlier=again)
    assert isinstance(other, Failed)
    answer = authenticate_answer(other.frame)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    _, wrong = world.logged(handshake("PLAIN"), authenticate(b"\0\0"), earlier=again)
    assert "during re-authentication" in (authenticate_answer(wrong.frame).error_message or "")


def test_re_authentication_keeps_the_mechanism_and_begins_with_a_handshake() -> None:
    world = World()
    again = Earlier("SCRAM-SHA-256", "User:alice")
    _, other = world.logged(handshake("PLAIN"), authenticate(plain("alice", "alice-secret")), earlier=again)
    assert isinstance(other, Failed)
    assert "is not supported for re-authentication of mechanism 'SCRAM-SHA-256'" in (
        authenticate_answer(other.frame).error_message or ""
    )
    with pytest.raises(LoginError):
        world.login(again).receive(api_versions())


def test_a_mechanism_may_have_to_wait() -> None:
    class Slow:
        async def step(self, token: bytes) -> Step:
            await asyncio.sleep(0)
            return Denied("no") if token == b"no" else Accepted("User:slow", None)

    world = World({"SLOW": Offer(Slow)})
    for token, kind in ((b"no", Failed), (b"yes", LoggedIn)):
        login = world.login()
        login.receive(handshake("SLOW", 0))
        reply = login.receive(token)
        assert isinstance(reply, Awaitable)
        settled = asyncio.run(_wait(reply))
        assert type(settled) is kind
        assert settled.frame is None  # nothing is sent where the mechanism has no token
        assert login.state is State.OVER


async def _wait(later: Awaitable[object]) -> object:
    return await later
