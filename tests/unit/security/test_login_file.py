"""The file of logins (JAAS) that KAFKA_OPTS names: what a broker and commands take from it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from moldau.broker.metadata.image import Image
from moldau.broker.metadata.zookeeper.options import options_of
from moldau.broker.security.login.login_file import with_login_file
from moldau.broker.security.login.logins import Logins
from moldau.broker.security.login.steps import Accepted
from moldau.common.core.clock import ManualClock
from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.jaas import JaasEntry, parse_jaas
from moldau.common.credentials.login_file import with_client_login
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import StaticSettings, load
from moldau.tools.main import main

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
FILE = f"""
// as Kafka's documentation has it
KafkaServer {{
    {PLAIN} required username="admin" password="admin secret" user_alice="from the file";
    org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="s";
}};
inside.KafkaServer {{ {PLAIN} required user_alice="inside"; }};
KafkaClient {{ {PLAIN} required username="bob" password='say "x\\\\y"'; }};
Client {{ org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="z"; }};
Other {{ com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true; }};
"""
LISTENERS = (
    "listeners=INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0,CLEAR://127.0.0.1:0",
    "listener.security.protocol.map=INSIDE:SASL_PLAINTEXT,OUTSIDE:SASL_PLAINTEXT,CLEAR:PLAINTEXT",
    "inter.broker.listener.name=CLEAR",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file, in a folder whose name has a space."""
    folder = tmp_path / "a b"
    folder.mkdir()
    (folder / "jaas.conf").write_text(FILE)
    return folder / "jaas.conf"


def told(path: Path | str, *more: str) -> dict[str, str]:
    return {"KAFKA_OPTS": " ".join(("-Xmx1g", f"'-Djava.security.auth.login.config={path}'", *more))}


def settings(path: Path | str, *words: str, more: str = "") -> StaticSettings:
    environment = told(path, more)
    return with_login_file(load(environment=environment, overrides=(*LISTENERS, *words)), environment)


def logs_in(static: StaticSettings, listener: str, password: str) -> bool:
    """Whether alice can log in by PLAIN."""
    logins = Logins(lambda: static.broker, Image, ManualClock(), random.Random(1))
    step = logins.offered(listener)["PLAIN"].begin().step(f"\0alice\0{password}".encode())
    return isinstance(step, Accepted)


@pytest.mark.parametrize("form", ["{}", "={}", "file:{}", "file://{}"])
def test_sections_become_the_logins_of_listeners(path: Path, form: str) -> None:
    static = settings(form.format(path))
    assert logs_in(static, "OUTSIDE", "from the file")
    assert not logs_in(static, "OUTSIDE", "inside")
    assert logs_in(static, "INSIDE", "inside")
    entry = parse_jaas(static.texts["listener.name.outside.plain.sasl.jaas.config"])
    assert entry.options["password"] == "admin secret"
    assert not [name for name in static.texts if "clear" in name]
    assert "from the file" not in repr(static.broker)


def test_settings_go_before_the_file(path: Path) -> None:
    own = "listener.name.outside.plain.sasl.jaas.config"
    static = settings(path, f'{own}={PLAIN} required user_alice="the setting";')
    assert logs_in(static, "OUTSIDE", "the setting")
    assert not logs_in(static, "OUTSIDE", "from the file")


def test_the_login_at_zookeeper(path: Path) -> None:
    at = "zookeeper.connect=a:1"
    login = options_of(settings(path, at).broker).sasl
    assert login is not None
    assert (login.username, login.password) == ("kafka", "z")
    assert "'z'" not in repr(login)
    assert options_of(settings(path, at, more="-Dzookeeper.sasl.client=false").broker).sasl is None
    with pytest.raises(SettingError, match=r"section Other .*Kerberos is not spoken with ZooKeeper"):
        settings(path, at, more="-Dzookeeper.sasl.clientconfig=Other")
    assert settings(path).broker.moldau_zookeeper_sasl_jaas_config is None, "there is no ZooKeeper"


def test_the_login_at_zookeeper_by_a_module_of_kafka(tmp_path: Path) -> None:
    """ZooKeeper's client takes user and password from the subject, whoever has put them there."""
    file = tmp_path / "jaas.conf"
    file.write_text(f'Client {{ {PLAIN} required username="kafka" password="z"; }};')
    login = options_of(settings(file, "zookeeper.connect=a:1").broker).sasl
    assert login is not None
    assert (login.username, login.password) == ("kafka", "z")
    file.write_text("Client { com.sun.security.auth.module.Krb5LoginModule required; };")
    with pytest.raises(
        SettingError, match=r"the section Client of the file of logins .*jaas.conf .*Kerberos"
    ):
        settings(file, "zookeeper.connect=a:1")
    assert settings(file).broker.moldau_zookeeper_sasl_jaas_config is None, "there is no ZooKeeper"


def test_without_the_option_nothing_is_read() -> None:
    static = load(environment={"KAFKA_OPTS": "-Xmx1g"})
    assert with_login_file(static, {"KAFKA_OPTS": "-Xmx1g"}) is static


def test_files_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SettingError, match=r"/nowhere/x, which cannot be read: No such file"):
        settings("/nowhere/x")
    (tmp_path / "broken").write_text('KafkaServer { a.PlainLoginModule required user_x="planted" };')
    with pytest.raises(SettingError, match=r"broken: line 1: ") as caught:
        settings(tmp_path / "broken")
    assert "planted" not in str(caught.value)


def test_serve_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("KAFKA_OPTS", "-Djava.security.auth.login.config=/nowhere/x")
    assert main(["serve", "--port", "0"]) == 2
    error = capsys.readouterr().err
    assert "KAFKA_OPTS names the file of logins /nowhere/x" in error
    assert "Traceback" not in error


def test_clients_take_kafkaclient(path: Path) -> None:
    asked = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    found = with_client_login(asked, told(path))
    assert parse_jaas(found["sasl.jaas.config"]).options == {"username": "bob", "password": 'say "x\\y"'}
    for untouched in (
        {"security.protocol": "SSL"},
        {**asked, "sasl.jaas.config": "own"},
        {**asked, "sasl.username": "own"},
        {**asked, "sasl.mechanism": "GSSAPI", "sasl.kerberos.keytab": "own"},
        {**asked, "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.client.id": "own"},
    ):
        assert with_client_login(untouched, told(path)) == untouched
    assert with_client_login(asked, {}) == asked
    with pytest.raises(CredentialsError, match="no section KafkaClient with the login module of GSSAPI"):
        with_client_login({"security.protocol": "SASL_SSL"}, told(path))


def test_an_entry_is_written_as_it_is_read() -> None:
    entry = JaasEntry("a.B", "required", {"a": 'q"\\ \n;x', "user_b c": "ü'=", "d": ""})
    assert parse_jaas(entry.text) == entry
