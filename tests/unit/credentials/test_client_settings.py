"""Security settings of clients, in Java's words and in librdkafka's."""

import pickle

import pytest

from moldau.common.credentials.client.contexts import context_of, tls_of
from moldau.common.credentials.client.librdkafka import for_librdkafka
from moldau.common.credentials.client.options import broker_security, client_security
from moldau.common.credentials.errors import CredentialsError
from moldau.testing.authority import Authority

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def _scram(**more):
    jaas = f'{_SCRAM} required\n  username="ann"\n  password="a\\"b\\\\c;=\'d";'
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": jaas,
        **more,
    }


def test_jaas_over_several_lines_with_quotes_and_escapes():
    security = client_security(_scram())
    assert security.sasl is not None
    assert security.sasl.mechanism == "SCRAM-SHA-512"
    assert security.sasl.user_and_password() == ("ann", "a\"b\\c;='d")
    assert "b\\\\c" not in repr(security)
    assert pickle.loads(pickle.dumps(security)) == security


def test_both_notations_mean_the_same():
    ours = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": "a\"b\\c;='d",
    }
    theirs, mine = client_security(_scram()), client_security(ours)
    assert theirs.sasl is not None
    assert mine.sasl is not None
    assert (theirs.protocol, dict(theirs.sasl.options)) == (mine.protocol, dict(mine.sasl.options))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"security.protocol": "TLS"}, "it may be PLAINTEXT, SSL"),
        ({"security.protocol": "SSL", "ssl.what": "x"}, "ssl.what is a security setting"),
        ({"sasl.mechanism": "PLAIN"}, "no effect without security.protocol"),
        ({"ssl.truststore.location": "x"}, "no effect without security.protocol"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "name the user"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "X"}, "it may be PLAIN"),
        (_scram(**{"sasl.jaas.config": f"{_SCRAM} required username=hush"}), "';' is missing"),
        ({**_scram(), "sasl.mechanism": "", "sasl.jaas.config": 'a required username="hush'}, "not closed"),
        ({"security.protocol": "SSL", "ssl.key.location": "k"}, "ssl.certificate.location is not"),
    ],
)
def test_settings_that_cannot_be_used(settings, says):
    with pytest.raises(CredentialsError, match=says) as caught:
        client_security(settings)
    assert "hush" not in str(caught.value)


def test_a_scram_login_needs_its_mechanism_named():
    settings = _scram()
    del settings["sasl.mechanism"]
    with pytest.raises(CredentialsError, match=r"sasl\.mechanism is not set"):
        client_security(settings)


def test_librdkafka_gets_user_and_password():
    assert for_librdkafka({"client.id": "x", "security.protocol": "PLAINTEXT"}) == {
        "client.id": "x",
        "security.protocol": "PLAINTEXT",
    }
    assert for_librdkafka(_scram(**{"ssl.endpoint.identification.algorithm": ""})) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": "a\"b\\c;='d",
        "ssl.endpoint.identification.algorithm": "none",
    }
    with pytest.raises(CredentialsError, match="delegation token"):
        for_librdkafka(
            _scram(**{"sasl.jaas.config": f"{_SCRAM} required username=a password=b tokenauth=true;"})
        )
    with pytest.raises(CredentialsError, match="lacks username"):
        for_librdkafka(_scram(**{"sasl.jaas.config": f"{_SCRAM} required username=a;"}))


def test_librdkafka_gets_tokens_and_tickets():
    oauth = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    url = "https://issuer.example/token"
    found = for_librdkafka(
        {
            **oauth,
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.login.callback.handler.class": "org.example.Handler",
            "sasl.jaas.config": f'{_OAUTH} required clientId="me" clientSecret="hush" scope="kafka";',
        }
    )
    assert found["sasl.oauthbearer.method"] == "oidc"
    assert found["sasl.oauthbearer.token.endpoint.url"] == url
    assert (found["sasl.oauthbearer.client.id"], found["sasl.oauthbearer.client.secret"]) == ("me", "hush")
    assert "sasl.login.callback.handler.class" not in found
    unsecured = for_librdkafka(
        {**oauth, "sasl.jaas.config": f'{_OAUTH} required unsecuredLoginStringClaim_sub="ann";'}
    )
    assert unsecured["sasl.oauthbearer.config"] == "principal=ann"
    kerberos = for_librdkafka(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
            'keyTab="/etc/ann.keytab" principal="ann@EXAMPLE";',
        }
    )
    assert kerberos["sasl.kerberos.keytab"] == "/etc/ann.keytab"
    assert kerberos["sasl.kerberos.principal"] == "ann@EXAMPLE"
    assert kerberos["sasl.kerberos.service.name"] == "kafka"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def test_stores_of_any_format_become_pem_in_memory(authority):
    pair = authority.issue("ann")
    names = {"security.protocol": "SSL", "ssl.truststore.type": "PEM"}
    trust = {"ssl.truststore.location": str(authority.certificate)}
    pem = for_librdkafka(
        {**names, **trust, "ssl.keystore.type": "PEM", "ssl.keystore.location": str(pair.store)}
    )
    p12 = for_librdkafka(
        {
            **names,
            **trust,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(authority.pkcs12(pair, "hush")),
            "ssl.keystore.password": "hush",
        }
    )
    assert pem == p12
    assert set(pem) == {"security.protocol", "ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"}
    assert pem["ssl.certificate.pem"].count("BEGIN CERTIFICATE") == 2
    wrong = {**names, **trust, "ssl.keystore.location": str(pair.key.with_suffix(".p12"))}
    with pytest.raises(CredentialsError, match="password") as caught:
        for_librdkafka({**wrong, "ssl.keystore.type": "PKCS12", "ssl.keystore.password": "other-hush"})
    assert "hush" not in str(caught.value)


def test_the_two_files_of_librdkafka(authority):
    pair = authority.issue("bob")
    security = client_security(
        {
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority.certificate),
            "ssl.certificate.location": str(pair.certificate),
            "ssl.key.location": str(pair.key),
        }
    )
    assert "PRIVATE KEY" in (tls_of(security).keystore_key or "")
    assert "PRIVATE KEY" not in repr(tls_of(security))
    assert context_of(security) is context_of(security)


def test_a_renewed_file_makes_another_context(authority):
    pair = authority.issue("carol")
    settings = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pair.store),
    }
    before = context_of(client_security(settings))
    assert context_of(client_security(settings)) is before
    pair.store.write_bytes(authority.issue("carol2").store.read_bytes())
    assert context_of(client_security(settings)) is not before
    pair.store.unlink()
    with pytest.raises(CredentialsError, match="cannot be read"):
        context_of(client_security(settings))


def test_names_and_certificates_are_checked_unless_told_otherwise(authority):
    base = {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}

    def checks(**more):
        context = context_of(client_security({**base, **more}))
        assert context is not None
        return context.check_hostname, context.verify_mode.name

    name = "ssl.endpoint.identification.algorithm"
    assert checks() == (True, "CERT_REQUIRED")
    assert checks(**{name: "HTTPS"}) == (True, "CERT_REQUIRED")
    assert checks(**{name: ""}) == checks(**{name: "none"}) == (False, "CERT_REQUIRED")
    assert checks(**{"enable.ssl.certificate.verification": "false"}) == (False, "CERT_NONE")
    assert context_of(client_security({"security.protocol": "PLAINTEXT"})) is None


def test_a_broker_as_client_of_the_others():
    settings = {
        "sasl.jaas.config": f'{_PLAIN} required username="broker" password="hush" user_broker="hush";',
        "ssl.endpoint.identification.algorithm": "https",
    }
    security = broker_security("SASL_PLAINTEXT", "PLAIN", settings.get)
    assert security.tls is None
    assert security.sasl is not None
    assert security.sasl.user_and_password() == ("broker", "hush")
    assert broker_security("SSL", "GSSAPI", settings.get).sasl is None
    assert not broker_security("PLAINTEXT", "GSSAPI", settings.get).secured
