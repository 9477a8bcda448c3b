"""What pages show, as functions: ACLs as a matrix, schemas side by side, why a group is behind."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.common.protocol.acls import Acl
from moldau.common.protocol.operations import Operation, PatternType, Permission, ResourceType
from moldau.services.console.addresses import without_login
from moldau.services.console.facts.snapshot import GroupFacts
from moldau.services.console.pages.connectors import first_words, shown_setting
from moldau.services.console.pages.groups import ranges
from moldau.services.console.pages.rendering import bar, moment, query, size, spark
from moldau.services.console.pages.schemas import side_by_side
from moldau.services.console.pages.security import matrix
from moldau.services.console.pages.why_behind import why_behind


def acl(operation: Operation, permission: Permission = Permission.ALLOW, name: str = "orders") -> Acl:
    kind, pattern = ResourceType.TOPIC, PatternType.LITERAL
    return Acl(kind, name, pattern, "User:alice", "*", operation, permission)


def says(found: list[Acl], *operations: Operation) -> list[str]:
    (row,) = matrix(found, operations)
    return [cell["says"] for cell in row["cells"]]


def test_a_denial_of_all_outweighs_in_the_matrix() -> None:
    wanted = Operation.READ, Operation.WRITE
    assert says([acl(Operation.READ)], *wanted) == ["allow", ""]
    assert says([acl(Operation.ALL)], *wanted) == ["allow", "allow"]
    assert says([acl(Operation.READ), acl(Operation.ALL, Permission.DENY)], *wanted) == ["deny", "deny"]
    assert says([acl(Operation.READ, Permission.DENY), acl(Operation.READ)], *wanted) == ["deny", ""]
    assert len(matrix([acl(Operation.READ), acl(Operation.READ, name="x")], wanted)) == 2


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_both_texts_are_whole_side_by_side(left: list[str], right: list[str]) -> None:
    rows = side_by_side(left, right)
    assert [row["left"] for row in rows if row["left"] is not None] == left
    assert [row["right"] for row in rows if row["right"] is not None] == right
    assert all((row["kind"] == "same") == (row["left"] == row["right"]) for row in rows) or left != right


def test_versions_that_differ_in_every_field_are_compared_fast() -> None:
    def lines(letter: str) -> list[str]:
        fields = ((f'"name": "{letter}{number}",', '"type": "string"') for number in range(240))
        return [line for each in fields for line in ("{", *each, "},")]

    began = time.process_time()
    rows = side_by_side(lines("a"), lines("b"))
    assert (
        time.process_time() - began < 0.5
    )  # without a limit: a second of Python, in which nothing else goes on
    assert [row["left"] for row in rows if row["left"] is not None] == lines("a")


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        ("", ""),
        ("a.b.SomeException: it broke\n\tat x", "it broke"),
        ("A: outer\nCaused by: b.C: inner: with colon\n\tat y", "inner: with colon"),
        ('Traceback (most recent call last):\n  File "x"\nValueError: no such table', "no such table"),
        ("plain words: of no exception", "plain words: of no exception"),
    ],
)
def test_the_first_words_of_a_trace(trace: str, words: str) -> None:
    assert first_words(trace) == words


@given(st.sets(st.integers(0, 40)))
def test_ranges_name_every_number(numbers: set[int]) -> None:
    found: set[int] = set()
    for part in ranges(sorted(numbers)).split(", "):
        low, _, high = part.partition("–")
        if low:
            found |= set(range(int(low), int(high or low) + 1))
    assert found == numbers


# -- why a group is behind


def row(lag: int | None, member: str = "m", **more: Any) -> dict[str, Any]:
    return {
        "topic": "t", "partition": 0, "lag": lag, "member_id": member, "client_id": member, "host": "h",
        "committed": 5, "start": 0, "lost": False, **more,
    }  # fmt: skip


def group(members: int | None = 1, state: str = "Stable") -> GroupFacts:
    return GroupFacts("g", state, "classic", "consumer", 1, members)


def first(facts: GroupFacts, rows: list[dict[str, Any]], course: Any = ()) -> str:
    return why_behind(facts, rows, course)[0]["text"]


def test_causes_in_the_order_of_a_person_who_looks() -> None:
    assert "nothing to be behind" in first(group(), [])
    assert "has read all" in first(group(), [row(0)])
    assert "no members" in first(group(0, "Empty"), [row(9, "")])
    assert "distributing" in first(group(2, "PreparingRebalance"), [row(9)])
    assert "No member has t-0" in first(group(), [row(9, "")])
    assert "retention has deleted 3" in first(group(), [row(9, committed=1, start=4, lost=True)])
    alone = first(group(), [row(90), row(1, partition=1)])
    assert alone.startswith("t-0 alone has 90 of 91: m on h")
    assert "9 records behind" in first(group(), [row(9)])


def test_the_course_says_whether_it_catches_up() -> None:
    grows = [(1000 * step, 100.0 + 50 * step) for step in range(8)]
    assert "grows by about 50" in first(group(), [row(9)], grows)
    falls = [(1000 * step, 1000.0 - 10 * step) for step in range(8)]
    assert "catches up: about 2 minutes" in first(group(), [row(9)], falls)


# -- rendering


def test_links_keep_the_rest_of_the_query() -> None:
    assert query({"q": "a b", "page": "3"}, page=None, sort="-lag") == "?q=a+b&sort=-lag"
    assert query({}, page=None) == "?"
    assert query({"q": '"><script>'}) == "?q=%22%3E%3Cscript%3E"


def test_figures() -> None:
    assert [size(each) for each in (0, 1023, 1024, 5 << 30)] == ["0 B", "1023 B", "1.0 KiB", "5.0 GiB"]
    assert "1970-01-01 00:00:00.000" in str(moment(0))
    assert moment(-5) == "-5"
    assert "polyline" in spark([(0, 1.0), (5, 2.0)])
    assert "polyline" not in spark([(0, 1.0)])
    assert 'width="100.0"' in bar(7)


# -- what is nobody's business


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("connection.password", "hunter2"),
        ("value.converter.basic.auth.user.info", "me:hunter2"),
        ("ssl.keystore.key", "hunter2"),
        ("ssl.key.passphrase", "hunter2"),
        ("azure.storage.account.key", "hunter2"),
        ("connection.url", "postgresql://me:hunter2@db:5432/shop"),
        ("connection.url", "jdbc:postgresql://db/shop?user=me&password=hunter2&ssl=true"),
        ("aws.secret.access.key", "hunter2"),
    ],
)
def test_secrets_of_connectors_are_hidden(name: str, value: str) -> None:
    assert "hunter2" not in str(shown_setting(name, value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key.converter", "org.apache.kafka.connect.json.JsonConverter"),
        ("transforms.add.field", "key"),
        ("pk.fields", "id"),
        ("connection.url", "jdbc:postgresql://db:5432/shop?user=me"),
        ("topics", "a,b"),
        ("aws.access.key.id", "AKIA"),
    ],
)
def test_what_is_no_secret_is_shown(name: str, value: str) -> None:
    assert shown_setting(name, value) == value


def test_addresses_are_shown_without_a_login() -> None:
    assert without_login("http://me:hunter2@r1:8081,https://r2/x") == "http://r1:8081,https://r2/x"
    assert without_login("http://[::1]:8081") == "http://[::1]:8081"
    assert "hunter2" not in without_login("http://me:hunter2@[broken")
