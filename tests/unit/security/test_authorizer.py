"""Who may do what: super users, what holds without ACLs, and how long a decision is remembered."""

import pytest

from moldau.broker.handlers.parts.session import Session
from moldau.broker.metadata.changes import AclsCreated, AclsDeleted, replay
from moldau.broker.metadata.image import EMPTY_IMAGE
from moldau.broker.security.authorizer import DECISIONS_MAX, Authorizer
from moldau.common.core.principals import parse_super_users
from moldau.common.protocol.acls import Acl
from moldau.common.protocol.operations import Operation, PatternType, Permission, ResourceType

TOPIC = ResourceType.TOPIC
READ = Acl(TOPIC, "t", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW)
NO_READ = READ._replace(permission=Permission.DENY)


def session(principal="User:alice", host="10.0.0.1"):
    made = Session("P", client_host=host)
    made.authenticate(principal, 0)
    return made


class Followed:
    """An authorizer and the image that it follows."""

    def __init__(self, *acls, **options):
        self.authorizer = Authorizer(**options)
        self.image = EMPTY_IMAGE
        self.authorizer.image_changed(self.image, self.image, ())
        if acls:
            self.append(AclsCreated(acls))

    def append(self, *changes):
        old, self.image = self.image, replay(self.image, self.image.version + 1, changes)
        self.authorizer.image_changed(old, self.image, changes)


def reads(authorizer, client, name="t", **options):
    return authorizer.allows(client, Operation.READ, TOPIC, name, **options)


def test_nobody_may_do_anything_before_the_metadata_is_there_but_super_users():
    authorizer = Authorizer(super_users=["User:root"], allow_everyone=True)
    assert reads(authorizer, session("User:root"))
    assert not reads(authorizer, session())
    assert not authorizer.allows_any_resource(session(), Operation.READ, TOPIC)
    client = session()
    assert not reads(authorizer, client)
    authorizer.image_changed(EMPTY_IMAGE, EMPTY_IMAGE, ())
    assert reads(authorizer, client), "not remembered from before"


def test_a_denial_outweighs_but_not_for_super_users():
    made = Followed(READ, NO_READ, NO_READ._replace(principal="User:root"), super_users=["User:root"])
    assert not reads(made.authorizer, session())
    assert reads(made.authorizer, session("User:root"))
    assert made.authorizer.allows_any_resource(session("User:root"), Operation.WRITE, TOPIC)


def test_without_acls_a_resource_is_open_only_where_told():
    assert not reads(Followed().authorizer, session())
    made = Followed(READ._replace(principal="User:bob"), allow_everyone=True)
    assert reads(made.authorizer, session(), "other")
    assert not reads(made.authorizer, session()), "there is an ACL, about somebody else"
    made.append(AclsCreated((READ._replace(resource_name="*", principal="User:bob"),)))
    assert not reads(made.authorizer, session(), "other"), "a pattern for all names is one for this one"


def test_a_change_is_seen_by_every_session_and_told():
    told = []
    made = Followed(READ, rights_changed=lambda: told.append(1))
    client, other = session(), session()
    assert reads(made.authorizer, client)
    assert reads(made.authorizer, other)
    assert client.decisions is other.decisions, "one memory for a principal from one host"
    made.append(AclsCreated((NO_READ,)))
    assert not reads(made.authorizer, client)
    assert not reads(made.authorizer, other)
    made.append(AclsDeleted((NO_READ,)))
    assert reads(made.authorizer, client)
    made.append(AclsDeleted((READ, NO_READ)), AclsCreated((READ,)), AclsDeleted((READ,)))
    assert not reads(made.authorizer, client)
    assert len(told) == 5
    made.append()
    assert len(told) == 5, "nothing about ACLs"


def test_a_session_that_was_made_before_a_change_and_one_after_share_no_stale_memory():
    """The memory of an old session is emptied at each change, however long it lives."""
    made = Followed(READ)
    old = session()
    assert reads(made.authorizer, old)
    for _ in range(3):
        made.append(AclsDeleted((READ,)))
        assert not reads(made.authorizer, session())
        assert not reads(made.authorizer, old)
        made.append(AclsCreated((READ,)))
        assert reads(made.authorizer, session())
        assert reads(made.authorizer, old)


def test_another_principal_or_host_has_other_rights():
    made = Followed(READ._replace(host="10.0.0.0/24"))
    client = session()
    assert reads(made.authorizer, client)
    client.authenticate("User:bob", 1)
    assert not reads(made.authorizer, client)
    assert not reads(made.authorizer, session(host="10.0.1.1"))


def test_what_is_remembered_is_limited(monkeypatch):
    monkeypatch.setattr("moldau.broker.security.authorizer.DECISIONS_MAX", 10)
    made = Followed(READ._replace(pattern_type=PatternType.PREFIXED))
    client = session()
    for number in range(100):
        assert reads(made.authorizer, client, f"t{number}")
        assert not reads(made.authorizer, client, f"u{number}")
        assert len(client.decisions) <= 10
    assert DECISIONS_MAX > 10


def test_changes_that_were_missed_or_failed_are_made_up_for():
    made = Followed(READ)
    client = session()
    missed = made.image
    made.image = replay(made.image, 2, [AclsCreated((NO_READ,))])
    made.append(AclsCreated((READ._replace(resource_name="u"),)))
    assert missed.acls is not made.image.acls
    assert not reads(made.authorizer, client)
    assert reads(made.authorizer, client, "u")


def test_a_failure_refuses(monkeypatch):
    made = Followed(READ)
    client = session()
    assert reads(made.authorizer, client)

    def fail(self, acl):
        raise RuntimeError("on purpose")

    with monkeypatch.context() as patched:
        patched.setattr("moldau.common.access.acl_index.AclIndex.add", fail)
        with pytest.raises(RuntimeError):
            made.append(AclsCreated((NO_READ,)))
        assert not reads(made.authorizer, client), "the decision before was emptied too"
    made.append(AclsCreated((READ._replace(resource_name="u"),)))
    assert not reads(made.authorizer, client), "the denial holds"
    assert reads(made.authorizer, client, "u")


def test_rights_on_a_resource_as_bits():
    made = Followed(READ, NO_READ._replace(operation=Operation.DESCRIBE))
    bits = made.authorizer.authorized_operations(session(), TOPIC, "t")
    assert bits == 1 << Operation.READ
    everything = made.authorizer.authorized_operations(session("User:bob"), TOPIC, "t")
    assert everything == 0


class Told:
    def __init__(self, allowed_too=False):
        self.allowed_too = allowed_too
        self.lines = []

    def decided(self, client, operation, resource_type, name, *, allowed):
        self.lines.append((client.principal, int(operation), name, allowed))


def test_the_audit_hears_of_every_refusal_also_of_remembered_ones_but_not_of_quiet_questions():
    audit = Told()
    made = Followed(READ, audit=audit)
    client = session()
    for _ in range(2):
        assert reads(made.authorizer, client)
        assert not reads(made.authorizer, client, "u")
        assert not reads(made.authorizer, client, "v", quiet=True)
    assert audit.lines == [("User:alice", 3, "u", False)] * 2
    audit.allowed_too = True
    assert reads(made.authorizer, client)
    assert audit.lines[-1] == ("User:alice", 3, "t", True)


def test_super_users_are_separated_by_semicolons():
    assert parse_super_users("User:a; User:CN=b,O=c ;;") == ("User:a", "User:CN=b,O=c")
    assert parse_super_users("") == ()
    for wrong in ("a", "User:", ":a", "User:a;b"):
        with pytest.raises(ValueError, match="principalType:principalName"):
            parse_super_users(wrong)


def test_a_decision_about_a_long_name_is_not_remembered():
    made = Followed(READ._replace(resource_type=ResourceType.GROUP, resource_name="*"))
    client = session()
    names = ["g" * 249, *(f"{number:05}" + "g" * 30_000 for number in range(20))]
    for name in names:
        assert made.authorizer.allows(client, Operation.READ, ResourceType.GROUP, name)
        assert not made.authorizer.allows(client, Operation.READ, TOPIC, name)
    assert {key[2] for key in client.decisions} == {"g" * 249}
