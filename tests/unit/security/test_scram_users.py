"""SCRAM credentials through both APIs and the metadata, up to a login with what was stored."""

import asyncio
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from login_world import ScramClient, credential

from moldau.broker.controller.scram_users import ScramDeletion, ScramUpsertion, alter_scram_users
from moldau.broker.handlers import load_all
from moldau.broker.metadata.changes import replay
from moldau.broker.metadata.codec import decode_image, encode_image
from moldau.broker.metadata.image import EMPTY_IMAGE, Image
from moldau.broker.security.login.scram import Scram
from moldau.broker.security.login.scram_store import scram_store
from moldau.broker.security.login.steps import Accepted, Challenge, Denied, Step
from moldau.common.core.slow_lane import all_steps
from moldau.common.credentials.scram import SHA_256, SHA_512, ScramMechanism, salted_password
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from moldau.common.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "handlers"))
from admin_world import ask, start

SALT = b"0123456789abcdef"


def upsertion(
    name: str, password: str = "secret", mechanism: ScramMechanism = SHA_256, iterations: int = 4096
) -> ScramUpsertion:
    salted = salted_password(mechanism, password, SALT, min(iterations, 4096) if iterations > 0 else 1)
    return ScramUpsertion(name, mechanism.number, iterations, SALT, salted)


def decide(image: Image, *asked: Any) -> tuple[Image, dict[str, tuple[int, str | None]]]:
    decision = all_steps(alter_scram_users(image, asked, random.Random(3)))
    after = replay(image, image.version + 1, decision.changes)
    return after, {user: tuple(outcome) for user, outcome in decision.answer}


def test_what_is_stored_are_the_derived_keys() -> None:
    image, answer = decide(EMPTY_IMAGE, upsertion("alice"), upsertion("alice", mechanism=SHA_512))
    assert answer == {"alice": (0, None)}
    assert image.scram == {
        "alice": {
            "SCRAM-SHA-256": credential(SHA_256, "secret", SALT),
            "SCRAM-SHA-512": credential(SHA_512, "secret", SALT),
        }
    }
    assert len(image.scram_secret) == 32
    assert decode_image(encode_image(image)) == image


def test_the_secret_of_salts_is_made_once() -> None:
    image, _ = decide(EMPTY_IMAGE, upsertion("alice"))
    again, _ = decide(image, upsertion("bob"), ScramDeletion("alice", 1))
    assert again.scram_secret == image.scram_secret
    assert set(again.scram) == {"bob"}
    nothing, _ = decide(EMPTY_IMAGE, ScramDeletion("alice", 1))
    assert nothing == EMPTY_IMAGE._replace(version=1)


def test_a_user_succeeds_or_fails_as_a_whole() -> None:
    image, _ = decide(EMPTY_IMAGE, upsertion("alice"), upsertion("bob"))
    after, answer = decide(
        image,
        ScramDeletion("alice", 1),
        ScramDeletion("alice", 2),
        ScramDeletion("bob", 1),
        upsertion("bob", mechanism=SHA_512),
        upsertion("carol", iterations=4095),
        upsertion("dave", iterations=16385),
        upsertion("erin", iterations=2**31 - 1),
        upsertion("frank", iterations=-(2**31)),
        upsertion(""),
        upsertion("grace")._replace(mechanism=0),
        upsertion("heidi"),
        upsertion("heidi"),
        ScramDeletion("ivan", 1),
        upsertion("ivan"),
    )
    missing = "Attempt to delete a user credential that does not exist"
    twice = "A user credential cannot be altered twice in the same request"
    assert answer == {
        "alice": (ErrorCode.RESOURCE_NOT_FOUND, missing),
        "bob": (0, None),
        "carol": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        "dave": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        "erin": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        "frank": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        "grace": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        "heidi": (ErrorCode.DUPLICATE_RESOURCE, twice),
        "ivan": (ErrorCode.RESOURCE_NOT_FOUND, missing),
    }
    assert after.scram["alice"] is image.scram["alice"]
    assert set(after.scram["bob"]) == {"SCRAM-SHA-512"}
    assert set(after.scram) == {"alice", "bob"}


def test_no_key_shows_in_what_is_logged() -> None:
    image, _ = decide(EMPTY_IMAGE, upsertion("alice"))
    shown = repr((image.scram, upsertion("alice")))
    assert str(SALT) not in shown
    assert "[hidden]" in shown


def login(image: Image, password: str, name: str = "alice") -> Step:
    store = scram_store(SHA_256, lambda: image, random.Random(4))
    one, client = Scram(SHA_256, store, random.Random(5)), ScramClient(SHA_256, name, password)
    challenge = one.step(client.first())
    assert isinstance(challenge, Challenge)
    return one.step(client.final(challenge.token))


def test_logins_see_the_credentials_of_now() -> None:
    image, _ = decide(EMPTY_IMAGE, upsertion("alice"))
    assert isinstance(login(image, "secret"), Accepted)
    changed, _ = decide(image, upsertion("alice", "changed"))
    assert isinstance(login(changed, "secret"), Denied)
    assert isinstance(login(changed, "changed"), Accepted)
    gone, _ = decide(changed, ScramDeletion("alice", 1))
    assert login(gone, "changed") == login(gone, "secret", "nobody") == login(EMPTY_IMAGE, "secret")
    assert isinstance(login(gone, "changed"), Denied)


def test_both_apis(tmp_path: Path) -> None:
    asyncio.run(_both_apis(tmp_path))


async def _both_apis(folder: Path) -> None:
    load_all()
    broker = await start(folder)

    def wire(one: ScramUpsertion) -> ScramCredentialUpsertion:
        return ScramCredentialUpsertion(
            name=one.user,
            mechanism=one.mechanism,
            iterations=one.iterations,
            salt=one.salt,
            salted_password=one.salted_password,
        )

    async def described(*names: str) -> list[Any]:
        users = [UserName(name=name) for name in names]
        answer = await ask(broker, DescribeUserScramCredentialsRequest(users=users or None))
        assert answer.error_code == 0
        return [
            (row.user, row.error_code, [(info.mechanism, info.iterations) for info in row.credential_infos])
            for row in answer.results
        ]

    upsertions = [
        upsertion("alice", mechanism=SHA_512),
        upsertion("alice"),
        upsertion("bob", iterations=8192),
    ]
    request = AlterUserScramCredentialsRequest(upsertions=[wire(each) for each in upsertions])
    answer = await ask(broker, request)
    assert [(row.user, row.error_code) for row in answer.results] == [("alice", 0), ("bob", 0)]
    assert await described() == [("alice", 0, [(1, 4096), (2, 4096)]), ("bob", 0, [(1, 8192)])]
    missing, twice = ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.DUPLICATE_RESOURCE
    assert await described("bob", "x", "alice", "alice") == [
        ("bob", 0, [(1, 8192)]),
        ("x", missing, []),
        ("alice", twice, []),
    ]
    request = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="alice", mechanism=1)])
    await ask(broker, request)
    assert await described("alice") == [("alice", 0, [(2, 4096)])]
    many = [ScramCredentialDeletion(name=f"user{number}", mechanism=1) for number in range(10_001)]
    answer = await ask(broker, AlterUserScramCredentialsRequest(deletions=many))
    assert {row.error_code for row in answer.results} == {ErrorCode.POLICY_VIOLATION}
    await broker.controller.this_broker.close()
    again = await start(folder)  # from the file
    assert set(again.metadata.image.scram) == {"alice", "bob"}
    assert again.metadata.image.scram == broker.metadata.image.scram
    await again.controller.this_broker.close()


def test_without_the_right_each_row_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Kafka: the error stands in the response and in a row for each user that was named."""
    from moldau.broker.handlers.apis.security import describe_user_scram_credentials as handler

    monkeypatch.setattr(handler, "may_on_cluster", lambda *_: False)

    async def scene() -> None:
        load_all()
        broker = await start(tmp_path)
        users = [UserName(name="alice"), UserName(name="bob")]
        answer = await ask(broker, DescribeUserScramCredentialsRequest(users=users))
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert answer.error_code == refused
        assert [(row.user, row.error_code) for row in answer.results] == [("", refused)] * 2
        answer = await ask(broker, DescribeUserScramCredentialsRequest(users=None))
        assert (answer.error_code, answer.results) == (refused, [])
        await broker.controller.this_broker.close()

    asyncio.run(scene())
