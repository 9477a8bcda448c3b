"""SCRAM: right and changed messages, names that do not exist, an independent implementation as a check."""

import re
from collections.abc import Callable

import pytest
import scramp
from login_world import ScramClient, ScramWorld, credential

from moldau.broker.security.login.scram import Known
from moldau.broker.security.login.steps import Accepted, Challenge, Denied, Step
from moldau.common.credentials.scram import (
    BY_NAME,
    SHA_256,
    SHA_512,
    ScramMechanism,
    ScramSyntaxError,
    base64_text,
    parse_server_first,
)
from moldau.common.credentials.scram_credential import ScramCredential

BOTH = pytest.mark.parametrize("mechanism", [SHA_256, SHA_512], ids=lambda each: each.name)


def run(
    world: ScramWorld,
    client: ScramClient,
    first: Callable[[bytes], bytes] = bytes,
    final: Callable[[bytes], bytes] = bytes,
) -> Step:
    """The last step of a login whose messages are changed on the way."""
    login = world.begin()
    step = login.step(first(client.first()))
    if not isinstance(step, Challenge):
        return step
    return login.step(final(client.final(step.token)))


@BOTH
@pytest.mark.parametrize("name", ["alice", "a=b", "a,b", "=2C", "=,=,", "ünicode", "a b", "x" * 5000])
def test_names_of_all_kinds_log_in(mechanism: ScramMechanism, name: str) -> None:
    world = ScramWorld(mechanism, **{name: "pässword"})
    client = ScramClient(mechanism, name, "pässword")
    step = run(world, client)
    assert isinstance(step, Accepted)
    assert step.principal == f"User:{name}"
    assert step.token == client.expected()


@BOTH
def test_an_independent_client_logs_in_and_trusts_the_answer(mechanism: ScramMechanism) -> None:
    world = ScramWorld(mechanism, alice="secret")
    client = scramp.ScramClient([mechanism.name], "alice", "secret")
    login = world.begin()
    challenge = login.step(client.get_client_first().encode())
    assert isinstance(challenge, Challenge)
    client.set_server_first(challenge.token.decode())
    last = login.step(client.get_client_final().encode())
    assert isinstance(last, Accepted)
    assert last.token is not None
    client.set_server_final(last.token.decode())


@BOTH
def test_stored_keys_are_those_of_an_independent_implementation(mechanism: ScramMechanism) -> None:
    salt = b"0123456789abcdef"
    _, stored, server, _ = scramp.ScramMechanism(mechanism.name).make_auth_info("secret", 4096, salt)
    assert credential(mechanism, "secret", salt) == ScramCredential(salt, stored, server, 4096)


def test_the_example_of_rfc_7677() -> None:
    salt = b"[m\x99h\x9d\x125\x8e\xec\xa0K\x14\x126\xfa\x81"
    found = credential(SHA_256, "pencil", salt, 4096)
    assert base64_text(found.stored_key) == "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64_text(found.server_key) == "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="


@BOTH
def test_a_wrong_password_and_an_unknown_name_are_refused_alike(mechanism: ScramMechanism) -> None:
    world = ScramWorld(mechanism, alice="secret")
    wrong = run(world, ScramClient(mechanism, "alice", "wrong"))
    nobody = run(world, ScramClient(mechanism, "nobody", "wrong"))
    assert isinstance(wrong, Denied)
    assert wrong == nobody


def _told(world: ScramWorld, name: str) -> tuple[bytes, int]:
    step = world.begin().step(ScramClient(world.mechanism, name, "").first())
    assert isinstance(step, Challenge)
    told = parse_server_first(step.token, "client")
    return told.salt, told.iterations


def test_an_unknown_name_has_a_salt_of_its_own_which_stays() -> None:
    world, elsewhere = ScramWorld(SHA_256, alice="secret"), ScramWorld(SHA_256, alice="secret")
    salts = {_told(world, f"nobody{i}") for i in range(50)}
    assert len(salts) == 50
    assert salts == {_told(elsewhere, f"nobody{i}") for i in range(50)}
    assert {(len(salt), iterations) for salt, iterations in salts} == {(16, 4096)}
    elsewhere.store = elsewhere.store._replace(secret=lambda: b"another cluster")
    assert not salts & {_told(elsewhere, f"nobody{i}") for i in range(50)}


def test_unknown_names_look_as_the_known_ones_do() -> None:
    world = ScramWorld(SHA_256)
    world.users["a"] = credential(SHA_256, "x", b"s" * 24, 8192)
    world.users["b"] = credential(SHA_256, "x", b"s" * 90, 16384)
    shapes = {(len(salt), iterations) for salt, iterations in (_told(world, f"no{i}") for i in range(60))}
    assert shapes == {(24, 8192), (90, 16384)}


def test_a_made_up_credential_cannot_be_logged_in_with() -> None:
    """Even who knows the cluster's secret, and so the made-up keys, is refused."""
    world = ScramWorld(SHA_256, alice="secret")
    login = world.begin()
    client = ScramClient(SHA_256, "nobody", "")
    challenge = login.step(client.first())
    assert isinstance(challenge, Challenge)
    login._known = None
    right = credential(SHA_256, "", parse_server_first(challenge.token, "client").salt)
    login._credential = right
    assert isinstance(login.step(client.final(challenge.token)), Denied)


def test_a_credential_with_too_few_iterations_counts_as_none() -> None:
    world = ScramWorld(SHA_256)
    world.users["alice"] = credential(SHA_256, "secret", b"salt", 100)
    salt, iterations = _told(world, "alice")
    assert salt != b"salt"
    assert iterations == 4096
    world.users["other"] = credential(SHA_256, "secret")
    client = ScramClient(SHA_256, "alice", "secret")
    login = world.begin()
    challenge = login.step(client.first())
    assert isinstance(challenge, Challenge)
    final = login.step(b"c=biws,r=" + _nonce(challenge) + b",p=" + base64_text(bytes(32)).encode())
    assert isinstance(final, Denied)


def _nonce(challenge: Challenge) -> bytes:
    match = re.match(rb"r=([^,]*)", challenge.token)
    assert match is not None
    return match[1]


@BOTH
@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n",
        b"n,,",
        b",,n=alice,r=client",
        b"n,n=alice,r=client",
        b"p=tls-unique,,n=alice,r=client",
        b"n,,n=,r=client",
        b"n,,n=alice",
        b"n,,n=alice,r=",
        b"n,,r=client,n=alice",
        b"n,,n=al=ice,r=client",
        b"n,,n=alice=,r=client",
        b"n,,n=al\0ice,r=client",
        b"n,,n=alice,r=cli\x00ent",
        b"n,,n=alice,r=cli ent",
        b"n,,n=alice,r=client,m=must",
        b"n,,m=must,n=alice,r=client",
        b"n,,n=alice,r=client,",
        b"n,,n=alice,r=client,x",
        b"n,,n=alice,r=client,x=",
        b"n,,n=alice,r=client,x=1,x=2",
        b"n,a=bob,n=alice,r=client",
        b"n,a=,n=alice,r=client",
        b"n,b=alice,n=alice,r=client",
        b"n,,n=alice\xff,r=client",
        b"\0alice\0secret",
        b"n,," + b"=" * 400_000,
        b"n,," + b"," * 400_000,
    ],
)
def test_a_malformed_first_message_is_refused(mechanism: ScramMechanism, first: bytes) -> None:
    step = ScramWorld(mechanism, alice="secret").begin().step(first)
    assert isinstance(step, Denied)
    assert "alice" not in step.reason
    assert len(step.reason) < 200


@pytest.mark.parametrize(
    "change",
    [
        lambda final: final.replace(b"r=client", b"r=tneilc"),
        lambda final: re.sub(rb"r=([^,]*)", rb"r=client", final),  # the server's part of the nonce left out
        lambda final: re.sub(rb"r=([^,]*)", rb"r=\1x", final),
        lambda final: final.replace(b"c=biws", b"c=eSws"),  # another GS2 header
        lambda final: final.replace(b"c=biws", b"c="),
        lambda final: final.replace(b"c=biws", b"c=!!"),
        lambda final: final.partition(b",p=")[0],
        lambda final: final.partition(b",p=")[0] + b",p=",
        lambda final: final.partition(b",p=")[0] + b",p=AAAA",
        lambda final: final[:-4] + b"AAA=",
        lambda final: final + b"=",
        lambda final: final + b",x=1",
        lambda final: b"x=1," + final,
        lambda final: final.replace(b",p=", b",x=1,p="),  # signed by nobody
        lambda final: b"",
        lambda final: b"\xff" * 10,
        lambda final: b"n,,n=alice,r=client",
    ],
)
def test_a_changed_final_message_is_refused(change: Callable[[bytes], bytes]) -> None:
    world = ScramWorld(SHA_256, alice="secret")
    assert isinstance(run(world, ScramClient(SHA_256, "alice", "secret"), final=change), Denied)


def test_the_final_message_of_another_login_is_refused() -> None:
    world = ScramWorld(SHA_256, alice="secret")
    client = ScramClient(SHA_256, "alice", "secret")
    one, other = world.begin(), world.begin()
    challenge = one.step(client.first())
    assert isinstance(challenge, Challenge)
    other.step(client.first())
    assert isinstance(other.step(client.final(challenge.token)), Denied)


def test_an_authorization_id_is_the_name_or_nothing_also_for_unknown_names() -> None:
    world = ScramWorld(SHA_256, alice="secret")
    client = ScramClient(SHA_256, "alice", "secret")
    client.header = "n,a=alice,"
    assert isinstance(run(world, client), Accepted)
    for name in ("alice", "nobody"):
        step = world.begin().step(f"n,a=bob,n={name},r=client".encode())
        assert isinstance(step, Denied)
        assert "authorization id" in (step.sentence or "")


def test_a_delegation_token_logs_its_owner_in() -> None:
    world = ScramWorld(SHA_256, alice="secret", token1="not this one")
    world.tokens["token1"] = Known(credential(SHA_256, "mac"), "User:alice", 5000, "token1")
    client = ScramClient(SHA_256, "token1", "mac")
    assert isinstance(run(world, client), Denied)  # a user of that name has another password
    client.extensions = ",tokenauth=true"
    step = run(world, client)
    assert isinstance(step, Accepted)
    assert (step.principal, step.expires_ms, step.token_id) == ("User:alice", 5000, "token1")
    client.name, client.password = "alice", "secret"
    assert isinstance(run(world, client), Denied)  # no token has that id


def test_other_extensions_are_ignored() -> None:
    world = ScramWorld(SHA_256, alice="secret")
    client = ScramClient(SHA_256, "alice", "secret")
    client.extensions = ",tokenauth=false,zz=anything=here"
    assert isinstance(run(world, client), Accepted)


@pytest.mark.parametrize(
    "server_first",
    [
        b"r=clientMORE,s=c2FsdA==,i=2147483648",
        b"r=clientMORE,s=c2FsdA==,i=99999999999999999999",
        b"r=clientMORE,s=c2FsdA==,i=2147483647",
        b"r=clientMORE,s=c2FsdA==,i=1",
        b"r=clientMORE,s=c2FsdA==,i=4095",
        b"r=clientMORE,s=c2FsdA==,i=-4096",
        b"r=clientMORE,s=c2FsdA==,i=\xd9\xa4\xd9\xa0\xd9\xa9\xd9\xa6",  # digits, but not ASCII
        b"r=clientMORE,s=c2FsdA==,i=",
        b"r=clientMORE,s=,i=4096",
        b"r=clientMORE,s=c2,i=4096",
        b"r=client,s=c2FsdA==,i=4096",
        b"r=other,s=c2FsdA==,i=4096",
        b"s=c2FsdA==,i=4096,r=clientMORE",
        b"e=unknown-user",
        b"",
    ],
)
def test_a_client_is_wary_of_the_servers_first_message(server_first: bytes) -> None:
    with pytest.raises(ScramSyntaxError):
        parse_server_first(server_first, "client")


def test_a_credential_does_not_show_its_keys() -> None:
    shown = repr(credential(SHA_256, "secret"))
    assert shown == "ScramCredential([hidden], iterations=4096)"
    assert set(BY_NAME) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
