"""Brokers log in to each other by an issuer's token, or by a Kerberos ticket: they replicate."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import KIND
from joserfc import jws
from joserfc.jwk import ECKey

from moldau.testing import Cluster
from moldau.testing.kerberos import REALM, KerberosRealm, missing_programs
from moldau.testing.ports import reserve_port

pytestmark = [
    pytest.mark.xdist_group("cluster"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(KIND != "moldau", reason="starts a cluster of Moldau"),
]
SECONDS = 120
RECORDS = 10


@pytest.fixture
def issuer(tmp_path: Path) -> dict[str, str]:
    """Settings of brokers that check tokens, and log in with one."""
    key, now = ECKey.generate_key("P-256"), int(time.time())
    (tmp_path / "keys").write_text(json.dumps({"keys": [{**key.as_dict(private=False), "kid": "k"}]}))
    claims = {"aud": "kafka", "sub": "broker", "iat": now, "exp": now + 3_600}
    token = jws.serialize_compact({"alg": "ES256", "kid": "k"}, json.dumps(claims), key)
    (tmp_path / "token").write_text(token)
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    return {
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys").as_uri(),
        "sasl.oauthbearer.token.endpoint.url": (tmp_path / "token").as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        "listener.name.inside.oauthbearer.sasl.jaas.config": f"{module} required;",
    }


@pytest.fixture
def realm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Settings of brokers with keys in a realm, whose KDC runs as long as the test."""
    pytest.importorskip("gssapi", reason="the package gssapi is not installed (moldau[kerberos])")
    if missing_programs():
        pytest.skip(f"no Kerberos KDC here: {', '.join(missing_programs())}")
    with KerberosRealm(tmp_path / "realm") as realm:
        for name in ("KRB5_CONFIG", "KRB5RCACHENAME"):
            monkeypatch.setenv(name, realm.environment[name])
        keytab = realm.keytab("kafka")
        realm.add("kafka/127.0.0.1", keytab=keytab)
        yield {
            "sasl.kerberos.service.name": "kafka",
            "listener.name.inside.gssapi.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule "
            f'required useKeyTab=true storeKey=true keyTab="{keytab}" principal="kafka/127.0.0.1@{REALM}";',
        }


@pytest.mark.parametrize(("mechanism", "fixture"), [("OAUTHBEARER", "issuer"), ("GSSAPI", "realm")])
def test_brokers_replicate(mechanism: str, fixture: str, request: pytest.FixtureRequest) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    shared = {
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        "min.insync.replicas": "2",
        **request.getfixturevalue(fixture),
    }
    ports = {node_id: (reserve_port(), reserve_port()) for node_id in (1, 2)}
    each = {
        node_id: {**shared, "listeners": f"CLIENTS://127.0.0.1:{one.number},INSIDE://127.0.0.1:{two.number}"}
        for node_id, (one, two) in ports.items()
    }
    outcomes: list[Any] = []
    try:
        with Cluster(2, each=each) as cluster:
            settings = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2}
            admin = AdminClient(settings)
            for made in admin.create_topics([NewTopic("both", 2, 2)]).values():
                made.result(SECONDS)
            producer = Producer({**settings, "acks": "all"})
            for number in range(RECORDS):
                producer.produce("both", str(number), on_delivery=lambda error, _: outcomes.append(error))
            assert producer.flush(SECONDS) == 0
    finally:
        for one, two in ports.values():
            one.release()
            two.release()
    assert outcomes == [None] * RECORDS
