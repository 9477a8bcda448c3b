"""SASL/GSSAPI against a real KDC: a ticket logs in, and every step that is changed does not."""

import asyncio

import pytest

from moldau.broker.security.kerberos_names import KerberosNames
from moldau.broker.security.login.gssapi import Acceptor, Gssapi, KerberosError
from moldau.broker.security.login.steps import Accepted, Challenge, Denied
from moldau.common.core.waiting import settled
from moldau.common.credentials.client.exchange import LoginFailed, exchange_of
from moldau.common.credentials.client.options import SaslOptions
from moldau.common.credentials.errors import CredentialsError
from moldau.testing.kerberos import REALM, KerberosRealm, missing_programs

gssapi = pytest.importorskip("gssapi", reason="the package gssapi is not installed (moldau[kerberos])")
if missing_programs():
    pytest.skip(f"no Kerberos KDC here: {', '.join(missing_programs())}", allow_module_level=True)

LAYERS = b"\1\0\0\0"


@pytest.fixture(scope="module")
def realm(tmp_path_factory):
    with KerberosRealm(tmp_path_factory.mktemp("realm")) as realm:
        realm.add("kafka/localhost", "alice", "bob/admin")
        with pytest.MonkeyPatch.context() as patch:
            for name in ("KRB5_CONFIG", "KRB5RCACHENAME"):
                patch.setenv(name, realm.environment[name])
            yield realm


@pytest.fixture(scope="module")
def acceptor(realm):
    return Acceptor(str(realm.keytab("kafka/localhost")), f"kafka/localhost@{REALM}")


class Login:
    """A broker's mechanism, and a client with a ticket."""

    def __init__(self, realm, acceptor, principal="alice", rules=(), mutual=True):
        self.mechanism = Gssapi(acceptor, KerberosNames(rules, acceptor.realm), self.run)
        flags = [gssapi.RequirementFlag.integrity]
        if mutual:
            flags.append(gssapi.RequirementFlag.mutual_authentication)
        self.client = gssapi.SecurityContext(
            name=gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service),
            creds=self.credentials(realm, principal),
            flags=flags,
            usage="initiate",
        )

    @staticmethod
    def credentials(realm, principal):
        store = {"client_keytab": f"FILE:{realm.keytab(principal)}", "ccache": f"MEMORY:{principal}"}
        return gssapi.Credentials(usage="initiate", store=store)

    async def run(self, blocking):
        return await asyncio.get_running_loop().run_in_executor(None, blocking)

    def send(self, token):
        async def step():
            return await settled(self.mechanism.step(token))

        return asyncio.run(step())

    def until_layers(self):
        """The broker's message with the security layers."""
        token = self.client.step()
        while not self.client.complete:
            step = self.send(token)
            token = self.client.step(step.token) or b""
        step = self.send(token)
        assert isinstance(step, Challenge)
        return self.client.unwrap(step.token).message

    def choose(self, answer):
        return self.send(self.client.wrap(answer, False).message)


def test_a_ticket_logs_in(realm, acceptor):
    login = Login(realm, acceptor)
    assert login.until_layers() == LAYERS
    assert login.choose(LAYERS) == Accepted("User:alice")


def test_a_client_that_does_not_ask_for_the_brokers_proof(realm, acceptor):
    login = Login(realm, acceptor, mutual=False)
    assert login.until_layers() == LAYERS
    assert login.choose(LAYERS) == Accepted("User:alice")


def test_the_user_that_a_client_asks_to_be_does_not_count(realm, acceptor):
    login = Login(realm, acceptor)
    login.until_layers()
    assert login.choose(LAYERS + b"admin") == Accepted("User:alice")


def exchange(settings, realm=None, **options):
    if realm is not None:
        options = {"keyTab": str(realm.keytab("alice")), "principal": f"alice@{REALM}", **options}
    return exchange_of(SaslOptions("GSSAPI", "Krb5LoginModule", options, settings), "localhost")


def test_our_own_client(realm, acceptor):
    login = Login(realm, acceptor)
    for settings, options in (
        ({"sasl.kerberos.service.name": "kafka"}, {}),
        ({}, {"serviceName": "kafka"}),
    ):
        login.mechanism = Gssapi(acceptor, KerberosNames((), REALM), login.run)
        client = exchange(settings, realm, **options)
        step = login.send(client.first())
        while isinstance(step, Challenge):
            step = login.send(client.next(step.token))
        assert step == Accepted("User:alice")
        assert client.next(b"") is None


def test_our_own_client_says_what_it_lacks(realm, tmp_path):
    service = {"sasl.kerberos.service.name": "kafka"}
    with pytest.raises(CredentialsError, match=r"sasl\.kerberos\.service\.name"):
        exchange({}, realm)
    with pytest.raises(CredentialsError, match="no Kerberos ticket for kafka@localhost"):
        exchange(service, ticketCache=str(tmp_path / "none")).first()
    with pytest.raises(CredentialsError, match="no Kerberos ticket for nobody@localhost"):
        exchange({"sasl.kerberos.service.name": "nobody"}, realm).first()


def test_our_own_client_refuses_another_server(realm, acceptor):
    for answer in (b"", b"rubbish"):
        client = exchange({"sasl.kerberos.service.name": "kafka"}, realm)
        client.first()
        with pytest.raises(LoginFailed, match="could not prove who it is"):
            client.next(answer)
    client = exchange({"sasl.kerberos.service.name": "kafka"}, realm)
    login = Login(realm, acceptor)
    answer = client.next(login.send(client.first()).token)
    assert answer == b""
    sealed = login.mechanism._context.wrap(b"\4\0\1\0", False).message  # encryption only
    with pytest.raises(LoginFailed, match="security layer"):
        client.next(sealed)


def test_rules_make_the_name(realm, acceptor):
    login = Login(realm, acceptor, "bob/admin", ["RULE:[2:$2.$1]"])
    login.until_layers()
    assert login.choose(LAYERS) == Accepted("User:admin.bob")
    login = Login(realm, acceptor, "bob/admin", ["RULE:[1:$1]"])
    login.until_layers()
    refused = login.choose(LAYERS)
    assert isinstance(refused, Denied)
    assert "no rule" in refused.reason


@pytest.mark.parametrize("answer", [b"", b"\1", b"\2\0\0\0", b"\4\0\0\0", b"\0\0\0\0", b"\3\0\0\0"])
def test_only_authentication_may_be_chosen(realm, acceptor, answer):
    login = Login(realm, acceptor)
    login.until_layers()
    assert isinstance(login.choose(answer), Denied)


def test_changed_tokens_are_refused(realm, acceptor):
    for change in (
        lambda token: b"",
        lambda token: b"\0",
        lambda token: token[:-1],
        lambda token: token[:-1] + bytes([token[-1] ^ 1]),
        lambda token: token[:-50] + bytes([token[-50] ^ 1]) + token[-49:],
        lambda token: token[:300] + bytes([token[300] ^ 1]) + token[301:],
        lambda token: bytes(300_000),
    ):
        login = Login(realm, acceptor)
        assert isinstance(login.send(change(login.client.step())), Denied)
    for change in (
        lambda token: b"",
        lambda token: token[:-1] + bytes([token[-1] ^ 1]),
        lambda token: LAYERS,
    ):
        login = Login(realm, acceptor)
        login.until_layers()
        step = login.send(change(login.client.wrap(LAYERS, False).message))
        assert isinstance(step, Denied)


def test_a_token_is_taken_once(realm, acceptor):
    login = Login(realm, acceptor)
    token = login.client.step()
    assert isinstance(login.send(token), Challenge)
    replay = Login(realm, acceptor)
    assert isinstance(replay.send(token), Denied)


def test_a_ticket_for_another_service_is_refused(realm, acceptor):
    realm.add("other/localhost")
    login = Login(realm, acceptor)
    login.client = gssapi.SecurityContext(
        name=gssapi.Name("other@localhost", gssapi.NameType.hostbased_service),
        creds=Login.credentials(realm, "alice"),
        usage="initiate",
    )
    assert isinstance(login.send(login.client.step()), Denied)


def test_nothing_follows_an_exchange_but_the_end(realm, acceptor):
    login = Login(realm, acceptor)
    login.client.step(login.send(login.client.step()).token)
    assert isinstance(login.send(b"more"), Denied)


def test_a_keytab_that_cannot_be_used(realm, tmp_path):
    with pytest.raises(KerberosError, match="missing cannot be used for kafka/localhost"):
        Acceptor(str(tmp_path / "missing"), f"kafka/localhost@{REALM}")
    with pytest.raises(KerberosError, match="cannot be used for kafka/elsewhere"):
        Acceptor(str(realm.keytab("kafka/localhost")), f"kafka/elsewhere@{REALM}")
    (tmp_path / "damaged").write_bytes(b"not a keytab")
    with pytest.raises(KerberosError, match="damaged"):
        Acceptor(str(tmp_path / "damaged"), f"kafka/localhost@{REALM}")
    assert Acceptor(str(realm.keytab("kafka/localhost")), None).realm == REALM
