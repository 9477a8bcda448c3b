"""Who may do what is the same as with Kafka's own authorizer: random ACLs and questions, asked of both.

One difference is meant: Kafka's does not see an ACL for `*` where a resource's own name begins with a star (a
group may be called so), so that a denial for all groups can be evaded. Here `*` is all names.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from client_agents import java_missing

from bench import apache_kafka
from moldau.broker.handlers.parts.session import Session
from moldau.broker.metadata.changes import AclsCreated, replay
from moldau.broker.metadata.image import EMPTY_IMAGE
from moldau.broker.security.authorizer import Authorizer
from moldau.common.protocol.acls import Acl

reason = apache_kafka.available() or java_missing()
pytestmark = [
    pytest.mark.skipif(reason is not None, reason=str(reason)),
    pytest.mark.timeout(400),
]

SOURCE = Path(__file__).parent / "java" / "rights" / "Rights.java"
NAMES = ["a", "ab", "abc", "b", "*", "a*", "*a", "ä", "hardcode", "z"]
PRINCIPALS = ["User:alice", "User:bob", "Group:alice", "User:a:b"]
ADDRESSES = ["10.0.0.1", "10.1.0.1", "::1", "fe80::1", "::ffff:10.0.0.1"]
HOSTS = ["*", "10.0.0.1", "10.1.0.1", "0:0:0:0:0:0:0:1", "host"]
TYPES = [2, 2, 3, 4]
ROUNDS = 300
QUESTIONS = 40

Question = tuple[str, str, str, int, int, str]


def any_acl(source: random.Random) -> Acl:
    return Acl(
        source.choice(TYPES),
        source.choice(NAMES),
        source.choice([3, 4]),
        source.choice([*PRINCIPALS, "User:*"]),
        source.choice(HOSTS),
        source.randrange(2, 16),
        source.choice([3, 3, 2]),
    )


def any_question(source: random.Random) -> Question:
    return (
        source.choice(["ask", "ask", "any"]),
        source.choice([*PRINCIPALS, "User:root"]),
        source.choice(ADDRESSES),
        source.randrange(3, 16),
        source.choice(TYPES),
        source.choice([*NAMES, "abcd"]),
    )


def ours(acls: list[Acl], everyone: bool, question: Question) -> str:
    authorizer = Authorizer(super_users=["User:root"], allow_everyone=everyone)
    image = replay(EMPTY_IMAGE, 1, [AclsCreated(tuple(acls))])
    authorizer.image_changed(EMPTY_IMAGE, image, ())
    kind, principal, host, operation, resource_type, name = question
    session = Session("LISTENER", client_host=host)
    session.authenticate(principal, 0)
    if kind == "any":
        allowed = authorizer.allows_any_resource(session, operation, resource_type)
    else:
        allowed = authorizer.allows(session, operation, resource_type, name)
    return "ALLOWED" if allowed else "DENIED"


def is_meant(question: Question) -> bool:
    kind, name = question[0], question[-1]
    return kind == "ask" and name.startswith("*") and name != "*"


def test_decisions_are_those_of_kafkas_authorizer() -> None:
    source = random.Random(13)
    lines: list[str] = []
    asked: list[tuple[list[Acl], bool, Question]] = []
    for _ in range(ROUNDS):
        everyone = source.random() < 0.3
        acls = list(dict.fromkeys(any_acl(source) for _ in range(source.randrange(12))))
        lines.append(f"new\tUser:root\t{str(everyone).lower()}")
        lines += ["\t".join(["acl", *map(str, acl)]) for acl in acls]
        for _ in range(QUESTIONS):
            question = any_question(source)
            lines.append("\t".join(map(str, question)))
            asked.append((acls, everyone, question))
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{apache_kafka.libraries()}/*", str(SOURCE)]
    done = subprocess.run(
        command,
        input="\n".join(lines) + "\n",
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    theirs = done.stdout.split()
    assert len(theirs) == len(asked)
    different = [
        (each, answer)
        for each, answer in zip(asked, theirs, strict=True)
        if ours(*each) != answer and not is_meant(each[2])
    ]
    assert not different, f"{len(different)} of {len(asked)}, such as {different[0]}"
    assert 0.1 < theirs.count("ALLOWED") / len(theirs) < 0.9
