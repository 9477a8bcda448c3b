"""PLAIN: which tokens are a login, and that nothing of a password is kept or shown."""

import random

import pytest

from moldau.broker.security.login.plain import PlainUsers
from moldau.broker.security.login.steps import Accepted, Denied

USERS = {"alice": "alice-secret", "ümlaut": "pässwörd", "spa ce": "a b", "": "empty"}


def users() -> PlainUsers:
    return PlainUsers(USERS, random.Random(3))


@pytest.mark.parametrize(
    ("token", "principal"),
    [
        (b"\0alice\0alice-secret", "User:alice"),
        (b"alice\0alice\0alice-secret", "User:alice"),
        ("\0ümlaut\0pässwörd".encode(), "User:ümlaut"),
        (b"\0spa ce\0a b", "User:spa ce"),
    ],
)
def test_a_right_password(token: bytes, principal: str) -> None:
    assert users().begin().step(token) == Accepted(principal)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"alice",
        b"alice\0alice-secret",
        b"\0alice\0",
        b"\0\0alice-secret",
        b"\0\0empty",  # a user with an empty name cannot log in
        b"\0\0",
        b"\0alice\0alice-secret\0",  # a NUL in the password: Kafka cuts there, and so accepts this
        b"\0alice\0alice-secret\0more",
        b"\0alice\0alice-secre",
        b"\0alice\0alice-secrett",
        b"\0Alice\0alice-secret",
        b"\0alice \0alice-secret",
        b"bob\0alice\0alice-secret",
        b"\0alice\xff\0alice-secret",
        b"\0alice\0alice-secret\xff",
        b"\xff\0alice\0alice-secret",
        "\0u\u0308mlaut\0pässwörd".encode(),  # another spelling of the name is another name
        b"\0" * 500_000,
        b"\0alice\0" + b"x" * 500_000,
    ],
)
def test_anything_else_is_refused(token: bytes) -> None:
    step = users().begin().step(token)
    assert isinstance(step, Denied)
    shown = f"{step.reason} {step.sentence}"
    assert "alice" not in shown
    assert len(shown) < 300


def test_an_authorization_id_of_somebody_else_is_told_only_to_who_knows_the_password() -> None:
    right = users().begin().step(b"bob\0alice\0alice-secret")
    wrong = users().begin().step(b"bob\0alice\0wrong")
    assert isinstance(right, Denied)
    assert isinstance(wrong, Denied)
    assert "authorization id" in (right.sentence or "")
    assert wrong == users().begin().step(b"\0nobody\0wrong")


def test_no_password_is_kept_or_shown() -> None:
    held = users()
    assert repr(held) == "PlainUsers(4 users)"
    assert "alice-secret" not in repr(vars(held))
