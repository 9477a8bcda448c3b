"""The index answers as Kafka's authorizer does, which walks through all ACLs: compared with such a walk on
random ACLs."""

import random
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept import kept as kept_by

from moldau.common.access.acl_index import AclIndex, Verdict, _Hosts, network_of, plain_host
from moldau.common.protocol.acls import Acl
from moldau.common.protocol.operations import Operation, PatternType, Permission, ResourceType

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY

NAMES = st.sampled_from(["a", "ab", "abc", "b", "*", "a*", "*a", "ä"])
PRINCIPALS = st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice"])
ADDRESSES = ["10.0.0.1", "10.1.0.1", "::1", "fe80::1%eth0", "unix"]
HOSTS = st.sampled_from(
    [*ADDRESSES, "*", "10.0.0.0/8", "10.1.0.0/8", "10.1.0.0/16", "0:0:0:0:0:0:0:1", "::/0", "no/net"]
)
OPERATIONS = st.sampled_from([each for each in Operation if each >= Operation.ALL])
ACLS = st.builds(
    Acl,
    st.sampled_from([TOPIC, GROUP]),
    NAMES,
    st.sampled_from([LITERAL, PREFIXED]),
    PRINCIPALS,
    HOSTS,
    OPERATIONS,
    st.sampled_from([ALLOW, ALLOW, DENY]),
)

IMPLYING = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def is_from(acl, host):
    if acl.host == "*" or plain_host(acl.host) == plain_host(host):
        return True
    network = network_of(acl.host)
    try:
        return network is not None and ip_address(host) in network
    except ValueError:
        return False


def names(acl, name):
    if acl.pattern_type == PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, "*")


def walked(acls, principal, host, operation, kind, name):
    """As a walk through all ACLs decides."""
    allowed = denied = False
    for acl in acls:
        if acl.resource_type != kind or not names(acl, name) or not is_from(acl, host):
            continue
        if acl.principal not in (principal, "User:*"):
            continue
        same = acl.operation in (operation, Operation.ALL)
        if acl.permission == DENY:
            denied |= same
        else:
            allowed |= same or acl.operation in IMPLYING.get(operation, ())
    return Verdict(True, False) if denied else Verdict(False, allowed)


@given(
    st.lists(ACLS, max_size=12, unique=True),
    st.lists(ACLS, max_size=6, unique=True),
    PRINCIPALS,
    st.sampled_from(ADDRESSES),
    OPERATIONS.filter(lambda each: each != Operation.ALL),
    NAMES,
)
def test_the_index_decides_as_a_walk_does_also_after_acls_were_removed(
    kept, gone, principal, host, operation, name
):
    gone = [acl for acl in gone if acl not in kept]
    index = AclIndex([*gone, *kept])
    for acl in gone:
        index.remove(acl)
    said = index.verdict(principal, plain_host(host), operation, TOPIC, name)
    expected = walked(kept, principal, host, operation, TOPIC, name)
    assert said.denied == expected.denied
    assert expected.denied or said.allowed == expected.allowed
    assert index.has_any(TOPIC, name) == any(acl.resource_type == TOPIC and names(acl, name) for acl in kept)
    asked = (principal, plain_host(host), operation, TOPIC)
    assert index.allows_some(*asked) == AclIndex(kept).allows_some(*asked)
    for acl in kept:
        index.remove(acl)
    assert index.verdict(principal, host, operation, TOPIC, name) == (False, False)
    assert not index.has_any(TOPIC, name)
    assert kept_by(index) <= 2, "by kind of resource at most"


def test_a_star_within_a_name_is_a_character():
    index = AclIndex(
        [
            Acl(TOPIC, "a*", LITERAL, "User:alice", "*", Operation.READ, ALLOW),
            Acl(GROUP, "*", PREFIXED, "User:alice", "*", Operation.READ, ALLOW),
        ]
    )

    def reads(kind, name):
        return index.verdict("User:alice", "h", Operation.READ, kind, name).allowed

    assert reads(TOPIC, "a*")
    assert not reads(TOPIC, "ab")
    assert reads(GROUP, "*starred")
    assert not reads(GROUP, "plain")


def test_the_wildcard_principal_is_compared_whole():
    index = AclIndex([Acl(TOPIC, "t", LITERAL, "Group:*", "*", Operation.READ, ALLOW)])
    assert not index.verdict("Group:a", "h", Operation.READ, TOPIC, "t").allowed


@pytest.mark.parametrize(
    ("client", "acl_host"),
    [
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("10.0.0.7", "::ffff:10.0.0.7"),
        ("2001:db8::7", "2001:DB8:0::/32"),
        ("10.0.0.7", "10.0.0.0/29"),
        ("10.0.0.7", "10.0.0.5/29"),
    ],
)
def test_addresses_are_compared_as_addresses(client, acl_host):
    index = AclIndex([Acl(TOPIC, "t", LITERAL, "User:a", acl_host, Operation.READ, ALLOW)])
    assert index.verdict("User:a", plain_host(client), Operation.READ, TOPIC, "t").allowed
    assert not index.verdict("User:a", "10.0.0.8", Operation.READ, TOPIC, "t").allowed


def some(acls, operation=Operation.WRITE):
    return AclIndex(acls).allows_some("User:a", "h", operation, TOPIC)


def acl(name, pattern=LITERAL, permission=ALLOW, operation=Operation.WRITE, principal="User:a"):
    return Acl(TOPIC, name, pattern, principal, "*", operation, permission)


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl("t")], True),
        ([acl("t", operation=Operation.ALL)], True),
        ([acl("t", principal="User:b")], False),
        ([acl("t", principal="User:*")], True),
        ([acl("t"), acl("t", permission=DENY)], False),
        ([acl("t"), acl("t", permission=DENY, principal="User:*")], False),
        ([acl("t"), acl("u"), acl("t", permission=DENY)], True),
        ([acl("t"), acl("*", permission=DENY)], False),
        ([acl("*"), acl("t", permission=DENY)], True),
        ([acl("*"), acl("t", PREFIXED, permission=DENY)], True),
        ([acl("topic"), acl("to", PREFIXED, DENY)], False),
        ([acl("topic", PREFIXED), acl("topic", PREFIXED, DENY)], False),
        ([acl("to", PREFIXED), acl("topic", PREFIXED, DENY)], True),
        ([acl("topic", PREFIXED), acl("topic", permission=DENY)], True),
    ],
)
def test_some_resource_is_allowed_unless_denials_cover_every_pattern(acls, expected):
    assert some(acls) is expected


def test_an_operation_that_implies_another_does_not_count_for_some_resource():
    assert not some([acl("t", operation=Operation.WRITE)], Operation.DESCRIBE)


def test_patterns_are_not_looked_through_for_what_no_acl_says(monkeypatch):
    index = AclIndex([acl(f"t{number}", operation=Operation.READ) for number in range(1_000)])
    asked = []
    found = _Hosts.found
    monkeypatch.setattr(_Hosts, "found", lambda self, host: asked.append(1) or found(self, host))
    assert not index.allows_some("User:a", "h", Operation.WRITE, TOPIC)
    assert not asked
    assert index.allows_some("User:a", "h", Operation.READ, TOPIC)
    assert len(asked) == 1


def test_a_question_costs_the_same_with_many_acls():
    """Counted, not timed: how many patterns are looked at."""
    source = random.Random(1)
    acls = [
        acl(f"team{source.randrange(10**6)}.", PREFIXED, principal=f"User:{number % 100}")
        for number in range(10_000)
    ]
    index = AclIndex(acls)
    index.add(acl("mine.", PREFIXED))
    (names_,) = index._about("User:a", TOPIC)
    assert len(names_.lengths) == 1
    assert index.verdict("User:a", "h", Operation.WRITE, TOPIC, "mine.topic").allowed
