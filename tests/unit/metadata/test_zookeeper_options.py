"""What the settings under `zookeeper.` ask of the store, and what is said where they cannot be used."""

import re
import subprocess
import sys

import pytest

from moldau.broker.host import zookeeper_store
from moldau.broker.metadata.store import MetadataStoreError
from moldau.broker.metadata.zookeeper.options import options_of, parse_connect
from moldau.common.credentials.certificates.authority import Authority
from moldau.common.credentials.tls.options import TlsOptions
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.rows import SettingError


@pytest.mark.parametrize(
    ("text", "hosts", "root"),
    [
        ("a", "a:2181", ""),
        ("a:1", "a:1", ""),
        ("a:1,b:2 , c", "a:1,b:2,c:2181", ""),
        ("a:1/", "a:1", ""),
        ("a:1,b:2/kafka/prod/", "a:1,b:2", "/kafka/prod"),
        ("[::1]:1,[fe80::1]/x", "[::1]:1,[fe80::1]:2181", "/x"),
    ],
)
def test_connect_strings(text, hosts, root):
    assert parse_connect(text) == (hosts, root)


@pytest.mark.parametrize("text", ["", ",", "a:", "a:x", "a:0", "a:70000", ":1", "a:1,", "/chroot", "a/../b"])
def test_connect_strings_that_are_none(text):
    with pytest.raises(SettingError, match=r"zookeeper\.connect="):
        parse_connect(text)


def settings(**named):
    return BrokerSettings(zookeeper_connect="a:1/x", **named)


def test_defaults_are_kafkas():
    options = options_of(settings())
    assert (options.hosts, options.root) == ("a:1", "/x")
    assert options.session_timeout_ms == options.connection_timeout_ms == 18_000
    short = options_of(settings(zookeeper_session_timeout_ms=2_000))
    assert short.connection_timeout_ms == 18_000, "the ensemble may be starting, too"
    assert options_of(settings(zookeeper_session_timeout_ms=60_000)).connection_timeout_ms == 60_000
    assert options.in_flight_max == 10
    assert options.credentials is options.tls is None
    assert not options.private
    assert options.protocols["SASL_SSL"] == "SASL_SSL"


def test_credentials():
    named = {"moldau_zookeeper_user": "u", "moldau_zookeeper_password": "p"}
    options = options_of(settings(zookeeper_set_acl=True, zookeeper_connection_timeout_ms=5, **named))
    assert (options.credentials, options.private, options.connection_timeout_ms) == ("u:p", True, 5)
    with pytest.raises(SettingError, match="belong together"):
        options_of(settings(moldau_zookeeper_user="u"))
    with pytest.raises(SettingError, match=r"zookeeper\.set\.acl needs moldau\.zookeeper\.user"):
        options_of(settings(zookeeper_set_acl=True))


def test_tls(tmp_path):
    options = options_of(settings(zookeeper_ssl_client_enable=True))
    assert options.tls == TlsOptions(keystore_type="PEM", truststore_type="PEM")
    authority = Authority.make("test", now_ms=1_790_000_000_000)
    (tmp_path / "trusted").write_text(authority.certificate)
    options = options_of(
        settings(
            zookeeper_ssl_client_enable=True,
            zookeeper_ssl_truststore_location=str(tmp_path / "trusted"),
            zookeeper_ssl_truststore_type="pem",
            zookeeper_ssl_enabled_protocols=("TLSv1.3",),
            zookeeper_ssl_cipher_suites=("TLS_AES_256_GCM_SHA384",),
            zookeeper_ssl_endpoint_identification_algorithm="",
        )
    )
    assert options.tls.truststore_location == str(tmp_path / "trusted")
    assert options.tls.enabled_protocols == ("TLSv1.3",)
    assert options.tls.endpoint_identification_algorithm == ""


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"keystore_location": "/k.bcfks"}, "must be PEM, PKCS12 or JKS"),
        ({"truststore_location": "/t.pem", "truststore_type": "BCFKS"}, "must be PEM, PKCS12 or JKS"),
        ({"truststore_location": "/missing.jks"}, "zookeeper.ssl.truststore.location=/missing.jks: the file"),
        ({"enabled_protocols": ("SSLv3",)}, "zookeeper.ssl.enabled.protocols: SSLv3 is not spoken"),
        ({"endpoint_identification_algorithm": "x"}, "zookeeper.ssl.endpoint.identification.algorithm=x"),
    ],
)
def test_tls_that_cannot_be_used(named, said):
    chosen = {f"zookeeper_ssl_{name}": value for name, value in named.items()}
    with pytest.raises(SettingError, match=re.escape(said)):
        options_of(settings(zookeeper_ssl_client_enable=True, **chosen))


def test_kazoo_is_not_installed(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("moldau.broker.metadata.zookeeper")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kazoo", None)
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(MetadataStoreError, match=r"pip install 'moldau\[cluster\]'"):
        zookeeper_store(None, settings(), None)


def test_a_single_broker_imports_no_client():
    program = (
        "import asyncio, sys, tempfile\n"
        "from moldau.common.settings.broker import BrokerSettings\n"
        "from moldau.broker.node import Node\n"
        "async def run():\n"
        "    with tempfile.TemporaryDirectory() as folder:\n"
        "        node = Node(BrokerSettings(log_dir=folder, listeners=('PLAINTEXT://127.0.0.1:0',)))\n"
        "        await node.start()\n"
        "        await node.stop()\n"
        "asyncio.run(run())\n"
        "wanted = ('kazoo', 'moldau.broker.metadata.zookeeper')\n"
        "print([name for name in sys.modules if name.startswith(wanted)])\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
