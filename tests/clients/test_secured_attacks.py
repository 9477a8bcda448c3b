"""Attacks on logins and rights over real sockets: each is refused, and tells the attacker nothing.

What is sent is built byte by byte, as no library would send it. Not here: mutated handshakes (property tests
of the login), JSON web tokens (the tests of the login), every API without rights (the matrix of rights).
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_model import eventually
from confluent_kafka.admin import (
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
)
from raw_client import Disconnected
from secured_fixtures import ADMIN_TIMEOUT_S, KIND, SecuredBroker
from secured_raw import ScramExchange, SecuredRaw

from bench import wire
from moldau.testing.authority import Authority
from moldau.testing.security import Login

pytestmark = pytest.mark.xdist_group("secured")

PRODUCE, FETCH, METADATA, OFFSET_FETCH, API_VERSIONS = 0, 1, 3, 9, 18
NONE, TOPIC_REFUSED, GROUP_REFUSED = 0, 29, 30
UNSUPPORTED_MECHANISM, ILLEGAL_STATE, AUTHENTICATION_FAILED = 33, 34, 58
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
HELD_OPEN = 50


@pytest.fixture
def stranger(secured_broker: SecuredBroker) -> Iterator[SecuredRaw]:
    """A connection that has not logged in, where passwords travel in the clear."""
    with SecuredRaw(secured_broker.port("SASL_PLAINTEXT")) as one:
        yield one


def raw(broker: SecuredBroker, user: str, mechanism: str = "PLAIN") -> SecuredRaw:
    return SecuredRaw(broker.port("SASL_PLAINTEXT"), broker.login("SASL_PLAINTEXT", user, mechanism))


def answer_to(broker: SecuredBroker, mechanism: str, data: bytes) -> tuple[int, str | None]:
    """Error and text of a login's first step; the connection must end after an error."""
    with SecuredRaw(broker.port("SASL_PLAINTEXT")) as one:
        assert one.handshake(mechanism).error_code == NONE
        found = one.authenticate(data)
        if found.error_code:
            assert one.closed()
        return int(found.error_code), found.error_message


# Before the login


@pytest.mark.parametrize(
    "request_bytes",
    [
        wire.metadata("anything"),
        wire.create_topic("anything", 1),
        wire.frame(10, 2, wire.string("g") + b"\0"),
    ],
    ids=["Metadata", "CreateTopics", "FindCoordinator"],
)
def test_a_request_before_the_login_closes_the_connection(stranger: SecuredRaw, request_bytes: bytes) -> None:
    stranger.send(request_bytes)
    assert stranger.closed()


def test_a_request_in_the_middle_of_a_login_closes_the_connection(stranger: SecuredRaw) -> None:
    assert stranger.handshake("SCRAM-SHA-256").error_code == NONE
    stranger.send(wire.metadata("anything"))
    assert b"127.0.0.1" not in _rest(stranger.socket)  # at most an error, and then the end


def test_a_frame_larger_than_the_limit_is_not_read(stranger: SecuredRaw) -> None:
    stranger.send(struct.pack(">i", 524_289))
    assert stranger.closed()


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1])
def test_a_frame_of_an_impossible_size_closes_the_connection(stranger: SecuredRaw, size: int) -> None:
    stranger.send(struct.pack(">i", size))
    assert stranger.closed()


def test_an_unknown_mechanism_is_answered_with_those_that_there_are(stranger: SecuredRaw) -> None:
    found = stranger.handshake("CRAM-MD5")
    assert found.error_code == UNSUPPORTED_MECHANISM
    assert set(found.mechanisms) == {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
    assert stranger.closed()


def test_versions_may_be_asked_before_the_login(stranger: SecuredRaw) -> None:
    assert {17, 36} <= set(stranger.advertised())
    assert stranger.handshake("PLAIN").error_code == NONE


def test_a_raw_login_of_old_clients(secured_broker: SecuredBroker) -> None:
    password = secured_broker.security.users["admin"].encode()
    with SecuredRaw(secured_broker.port("SASL_PLAINTEXT")) as one:
        assert one.handshake("PLAIN", version=0).error_code == NONE
        token = b"\0admin\0" + password
        one.send(struct.pack(">i", len(token)) + token)
        assert one.receive() == b""
        assert one.advertised()
    with SecuredRaw(secured_broker.port("SASL_PLAINTEXT")) as one:
        assert one.handshake("PLAIN", version=0).error_code == NONE
        token = b"\0admin\0" + password[::-1]
        one.send(struct.pack(">i", len(token)) + token)
        assert one.closed()


# PLAIN


def test_plain_tokens_that_are_no_tokens(secured_broker: SecuredBroker) -> None:
    password = secured_broker.security.users["alice"].encode()
    wrong = answer_to(secured_broker, "PLAIN", b"\0alice\0wrong")
    assert wrong[0] == AUTHENTICATION_FAILED
    assert answer_to(secured_broker, "PLAIN", b"\0nobody-of-that-name\0wrong") == wrong
    assert answer_to(secured_broker, "PLAIN", b"\0alice\0" + password[:-1]) == wrong
    assert answer_to(secured_broker, "PLAIN", b"\0ALICE\0" + password) == wrong
    for token in (
        b"",
        b"\0",
        b"\0\0",
        b"\0\0\0",
        b"alice",
        b"\0\0" + password,
        b"\0alice\0",
        b"\0alice\0" + password + b"\0",
        b"\0alice\0" + password + b"\0x",
        b"bob\0alice\0" + password,  # in the name of somebody else
        b"\0alice\0" + password + b"\xff\xfe",
        b"\0al\xffice\0" + password,
        b"\0" * 1000,
    ):
        error, said = answer_to(secured_broker, "PLAIN", token)
        assert error == AUTHENTICATION_FAILED, token
        assert said is None or password.decode() not in said


# SCRAM


def test_scram_with_another_nonce_or_binding_or_proof(secured_broker: SecuredBroker) -> None:
    exchange = ScramExchange("alice", secured_broker.security.users["alice"])

    def outcome(**changes: str) -> int:
        with SecuredRaw(secured_broker.port("SASL_PLAINTEXT")) as one:
            assert one.handshake("SCRAM-SHA-256").error_code == NONE
            challenge = bytes(one.authenticate(exchange.first).auth_bytes)
            if "nonce" in changes:
                changes["nonce"] = challenge.decode().split(",")[0].removeprefix("r=") + changes["nonce"]
            return int(one.authenticate(exchange.final(challenge, **changes)).error_code)

    assert outcome() == NONE
    assert outcome(nonce="x") == AUTHENTICATION_FAILED
    if KIND != "kafka":  # which does not look at it; there is no binding to what is below SASL
        assert outcome(binding="eSws") == AUTHENTICATION_FAILED
    wrong = ScramExchange("alice", "wrong")
    exchange.final = wrong.final  # type: ignore[method-assign]
    assert outcome() == AUTHENTICATION_FAILED


def test_a_scram_exchange_cannot_be_replayed(secured_broker: SecuredBroker) -> None:
    exchange = ScramExchange("alice", secured_broker.security.users["alice"])
    finals = []
    for _ in range(2):
        with SecuredRaw(secured_broker.port("SASL_PLAINTEXT")) as one:
            one.handshake("SCRAM-SHA-256")
            challenge = bytes(one.authenticate(exchange.first).auth_bytes)
            finals.append(exchange.final(challenge))
            found = one.authenticate(finals[0])
            assert found.error_code == (NONE if len(finals) == 1 else AUTHENTICATION_FAILED)
    assert finals[0] != finals[1]


@pytest.mark.skipif(KIND == "kafka", reason="Kafka tells at once that it has no such user")
def test_an_unknown_scram_user_is_challenged_like_any_other(secured_broker: SecuredBroker) -> None:
    def challenged(user: str) -> tuple[dict[str, str], int, str | None]:
        exchange = ScramExchange(user, "wrong")
        with SecuredRaw(secured_broker.port("SASL_PLAINTEXT")) as one:
            one.handshake("SCRAM-SHA-256")
            first = one.authenticate(exchange.first)
            assert first.error_code == NONE
            challenge = bytes(first.auth_bytes)
            final = one.authenticate(exchange.final(challenge))
            assert one.closed()
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        return fields, int(final.error_code), final.error_message

    known, error, said = challenged("alice")
    unknown, *outcome = challenged("nobody-of-that-name")
    assert outcome == [error, said]
    assert error == AUTHENTICATION_FAILED
    again, *_ = challenged("nobody-of-that-name")
    other, *_ = challenged("nobody-else")
    assert (
        again["s"] == unknown["s"]
    )  # a user has one salt; a new one each time would tell that there is none
    assert other["s"] != unknown["s"]
    assert unknown["i"] == known["i"]
    assert len(unknown["r"]) == len(known["r"])


# After the login


def test_nobody_becomes_somebody_else_by_authenticating_again(secured_broker: SecuredBroker) -> None:
    topic = secured_broker.create_topic("alice-again")
    users = secured_broker.security.users
    with raw(secured_broker, "bob") as one:
        try:
            assert one.handshake("PLAIN").error_code != NONE
            found = one.authenticate(b"\0alice\0" + users["alice"].encode())
            assert found.error_code != NONE
            answer = one.call(METADATA, 9, topics=[{"name": topic}])
            assert [int(each.error_code) for each in answer.topics] == [TOPIC_REFUSED]
        except Disconnected:
            pass  # closed, as well


def test_an_acl_that_is_taken_away_holds_at_once_for_connections_that_there_are(
    secured_broker: SecuredBroker,
) -> None:
    topic = secured_broker.create_topic("taken")
    (binding,) = secured_broker.allow("bob", TOPIC, topic, AclOperation.WRITE)
    batch = wire.batch([b"x"])
    at = wire.produce_error_at(topic) - 4

    def error(one: SecuredRaw) -> int:
        one.send(wire.produce(topic, batch))
        return int.from_bytes(one.receive()[at : at + 2], "big", signed=True)

    with raw(secured_broker, "bob") as one:
        assert eventually(lambda: error(one) == NONE)
        assert [error(one) for _ in range(3)] == [NONE] * 3  # repeated requests take a shorter way
        secured_broker.forget(binding)
        assert eventually(lambda: error(one) == TOPIC_REFUSED)
        assert [error(one) for _ in range(3)] == [TOPIC_REFUSED] * 3


def test_a_topic_cannot_be_fetched_by_its_id_either(secured_broker: SecuredBroker) -> None:
    topic = secured_broker.create_topic("by-id")
    bindings = secured_broker.allow("bob", TOPIC, topic, AclOperation.READ, AclOperation.WRITE)
    with raw(secured_broker, "bob") as one, raw(secured_broker, "admin") as admin:
        described = admin.call(METADATA, 12, topics=[{"name": topic, "topic_id": None}])
        topic_id = described.topics[0].topic_id
        admin.send(wire.produce(topic, wire.batch([b"confidential"])))
        admin.receive()
        partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
        asked = {"max_wait": 100, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": 0}
        topics = [{"topic_id": topic_id, "partitions": partitions}]

        def whole() -> bytes:
            answer = one.call(FETCH, 13, topics=topics, **asked, session_id=0)
            session.append(answer.session_id)
            return bytes(answer.responses[0].partitions[0].records or b"") if answer.responses else b""

        session: list[int] = []
        assert eventually(lambda: b"confidential" in whole())
        for binding in bindings:
            secured_broker.forget(binding)
        assert eventually(lambda: b"confidential" not in whole())
        answer = one.call(FETCH, 13, topics=topics, **asked, session_id=0)
        (partition,) = answer.responses[0].partitions
        assert partition.error_code == TOPIC_REFUSED
        assert not partition.records


def test_a_fetch_session_does_not_outlive_the_right_to_read(secured_broker: SecuredBroker) -> None:
    topic = secured_broker.create_topic("session")
    bindings = secured_broker.allow("bob", TOPIC, topic, AclOperation.READ)
    with raw(secured_broker, "bob") as one, raw(secured_broker, "admin") as admin:
        partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
        asked = {"max_wait": 100, "min_bytes": 1, "max_bytes": 1 << 20}
        topics = [{"topic": topic, "partitions": partitions}]

        def opened() -> int:
            answer = one.call(FETCH, 11, **asked, session_id=0, session_epoch=0, topics=topics)
            (partition,) = answer.responses[0].partitions
            return int(answer.session_id) if partition.error_code == NONE else 0

        session = eventually(opened)
        for binding in bindings:
            secured_broker.forget(binding)
        eventually(lambda: not opened())
        admin.send(wire.produce(topic, wire.batch([b"confidential"])))
        admin.receive()
        answer = one.call(FETCH, 11, **asked, session_id=session, session_epoch=1)
        for response in answer.responses:
            for partition in response.partitions:
                assert partition.error_code == TOPIC_REFUSED
                assert not partition.records


def test_offsets_of_somebody_elses_group_in_a_batch(secured_broker: SecuredBroker) -> None:
    topic = secured_broker.create_topic("alice-offsets")
    ours, theirs = f"bob-{os.urandom(4).hex()}", f"alice-{os.urandom(4).hex()}"
    secured_broker.allow("bob", GROUP, ours, AclOperation.READ)
    commit = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 4711}]}]
    with raw(secured_broker, "alice") as alice:
        assert alice.call(10, 2, key=theirs, key_type=0).error_code in (NONE, 15)

        def committed() -> bool:
            answer = alice.call(8, 7, group_id=theirs, generation_id_or_member_epoch=-1, topics=commit)
            return bool(answer.topics[0].partitions[0].error_code == NONE)

        assert eventually(committed)
    with raw(secured_broker, "bob") as bob:

        def batch() -> dict[str, tuple[int, str]]:
            groups = [{"group_id": group, "topics": None} for group in (ours, theirs)]
            answer = bob.call(OFFSET_FETCH, 8, groups=groups, require_stable=False)
            return {each.group_id: (int(each.error_code), str(each.topics)) for each in answer.groups}

        found = eventually(lambda: (one := batch())[ours][0] == NONE and one)
        assert found[theirs][0] == GROUP_REFUSED
        assert "4711" not in str(found)
        assert topic not in str(found)


def test_an_asterisk_in_a_literal_name_is_a_letter(secured_broker: SecuredBroker) -> None:
    topic = secured_broker.create_topic("starred")
    secured_broker.allow("bob", TOPIC, "starred*", AclOperation.ALL)
    secured_broker.allow("bob", TOPIC, f"{topic}*", AclOperation.ALL)
    secured_broker.allow("bob", TOPIC, "*", AclOperation.ALL, pattern=ResourcePatternType.PREFIXED)
    marker = secured_broker.create_topic("marker")
    secured_broker.allow("bob", TOPIC, marker, AclOperation.DESCRIBE)
    with raw(secured_broker, "bob") as one:

        def errors() -> list[int]:
            answer = one.call(METADATA, 9, topics=[{"name": topic}, {"name": marker}])
            return [int({each.name: each.error_code for each in answer.topics}[n]) for n in (topic, marker)]

        eventually(lambda: errors()[1] == NONE)  # the later ACL has arrived, so have those before it
        assert errors() == [TOPIC_REFUSED, NONE]


def test_a_denial_wins_over_every_permission(secured_broker: SecuredBroker) -> None:
    topic = secured_broker.create_topic("alice-denied")
    (binding,) = secured_broker.allow(
        "alice", TOPIC, topic, AclOperation.DESCRIBE, permission=AclPermissionType.DENY
    )
    with raw(secured_broker, "alice") as one:

        def error() -> int:
            return int(one.call(METADATA, 9, topics=[{"name": topic}]).topics[0].error_code)

        assert eventually(lambda: error() == TOPIC_REFUSED)
        secured_broker.forget(binding)
        assert eventually(lambda: error() == NONE)


def test_a_deleted_user_does_not_log_in_again(secured_broker: SecuredBroker) -> None:
    security = secured_broker.security
    admin = secured_broker.process.admin_settings()
    security.users["frank"] = "frank-secret"
    security.add_scram_users(admin, ["frank"])
    exchange = ScramExchange("frank", "frank-secret")

    def error() -> int:
        with SecuredRaw(secured_broker.port("SASL_PLAINTEXT")) as one:
            one.handshake("SCRAM-SHA-256")
            first = one.authenticate(exchange.first)
            if first.error_code:
                return int(first.error_code)
            return int(one.authenticate(exchange.final(bytes(first.auth_bytes))).error_code)

    assert eventually(lambda: error() == NONE)
    deletion = UserScramCredentialDeletion("frank", ScramMechanism.SCRAM_SHA_256)
    secured_broker.admin.alter_user_scram_credentials([deletion])["frank"].result(ADMIN_TIMEOUT_S)
    assert eventually(lambda: error() == AUTHENTICATION_FAILED)


# TLS


def test_half_handshakes_held_open_keep_nobody_out(secured_broker: SecuredBroker) -> None:
    hello = bytes.fromhex("16030100c8010000c40303") + os.urandom(60)
    held = []
    try:
        for number in range(HELD_OPEN):
            one = socket.create_connection(("127.0.0.1", secured_broker.port("SSL")), 30)
            held.append(one)
            one.sendall(hello[: number % len(hello)])
        with SecuredRaw(secured_broker.port("SSL"), secured_broker.login("SSL", "alice")) as one:
            assert one.advertised()
    finally:
        for each in held:
            each.close()


def test_plain_text_on_a_tls_port_is_not_served(secured_broker: SecuredBroker) -> None:
    with SecuredRaw(secured_broker.port("SASL_SSL")) as one:
        one.send(wire.frame(API_VERSIONS, 0, b""))
        assert b"\0\0\0\x01" not in _rest(one.socket)[:8]  # an alert of TLS or nothing, and no answer


def test_who_must_show_a_certificate_is_not_served_without(secured_broker: SecuredBroker) -> None:
    login = secured_broker.login("MUTUAL")
    with pytest.raises((OSError, Disconnected)), SecuredRaw(secured_broker.port("MUTUAL"), login) as one:
        one.advertised()  # with TLS 1.3 the refusal comes after the client's handshake


def test_a_certificate_of_another_authority_is_not_served(
    secured_broker: SecuredBroker, tmp_path: Path
) -> None:
    pair = Authority(tmp_path).issue("alice")
    login = Login("SSL", secured_broker.security.authority.certificate, pair)
    with pytest.raises((OSError, Disconnected)), SecuredRaw(secured_broker.port("MUTUAL"), login) as one:
        one.advertised()


def test_old_versions_of_tls_and_renegotiation_are_refused(secured_broker: SecuredBroker) -> None:
    command = ["openssl", "s_client", "-connect", secured_broker.address("SSL")]
    assert "alert" in _openssl([*command, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "")
    said = _openssl([*command, "-tls1_2"], "R\n")
    assert "RENEGOTIATING" in said
    assert "no renegotiation" in said or "alert" in said or "error" in said


def _openssl(command: list[str], text: str) -> str:
    assert shutil.which("openssl")
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def _rest(one: socket.socket) -> bytes:
    data = b""
    try:
        while piece := one.recv(4096):
            data += piece
    except ConnectionError:
        pass
    return data
