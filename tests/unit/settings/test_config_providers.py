"""${file:...}, ${dir:...} and ${env:...} in settings (KIP-297, KIP-421)."""

import pytest

from moldau.common.settings.providers import fill_in, undeclared
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import load

_CLASS = "org.apache.kafka.common.config.provider"
_ALL = {
    "config.providers": "file, dir,env",
    "config.providers.file.class": f"{_CLASS}.FileConfigProvider",
    "config.providers.dir.class": f"{_CLASS}.DirectoryConfigProvider",
    "config.providers.env.class": f"{_CLASS}.EnvVarConfigProvider",
}


@pytest.fixture
def secrets(tmp_path):
    (tmp_path / "secrets.properties").write_text("key=s3cret\nother=a\\u0041\nnested=${env:TOKEN}\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "password").write_text("from a file\n")
    return tmp_path


def _filled(value, environment=None, **more):
    return fill_in({**_ALL, **more, "x": value}, environment or {})["x"]


def test_each_provider(secrets):
    assert _filled(f"${{file:{secrets}/secrets.properties:key}}") == "s3cret"
    assert _filled(f"${{dir:{secrets}/folder:password}}") == "from a file\n"
    assert _filled("${env:TOKEN}", {"TOKEN": "t"}) == "t"
    mixed = f'user="${{env:USER_NAME}}" password="${{file:{secrets}/secrets.properties:other}}";'
    assert _filled(mixed, {"USER_NAME": "eve"}) == 'user="eve" password="aA";'


def test_a_value_is_not_searched_again(secrets):
    assert _filled(f"${{file:{secrets}/secrets.properties:nested}}", {"TOKEN": "t"}) == "${env:TOKEN}"


def test_nothing_is_filled_in_without_a_declaration():
    assert fill_in({"x": "${env:HOME}"}, {"HOME": "/"}) == {"x": "${env:HOME}"}
    assert _filled("${vault:a:b} $x {y} ${}") == "${vault:a:b} $x {y} ${}"
    assert undeclared({"x": "${env:HOME}", "y": "${vault:a:b}", "z": "plain"}) == ["x"]
    assert undeclared({**_ALL, "x": "${env:HOME}"}) == []


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("${file:/nowhere/at/all:key}", "/nowhere/at/all cannot be read"),
        ("${file:key}", "names no file"),
        ("${file:DIR/secrets.properties:none}", "has no key none"),
        ("${dir:DIR/folder:none}", "cannot be read"),
        ("${dir:DIR/folder:../secrets.properties}", "names no file in a folder"),
        ("${env:NONE}", "no environment variable NONE"),
        ("${env:path:NONE}", "have no path"),
    ],
)
def test_what_a_provider_does_not_have_is_an_error(secrets, value, sentence):
    with pytest.raises(SettingError, match=sentence) as caught:
        _filled(value.replace("DIR", str(secrets)))
    assert caught.value.sentence.startswith("x cannot be filled in: ")
    assert "s3cret" not in str(caught.value)


def test_allowed_paths(secrets):
    (secrets / "elsewhere").mkdir()
    (secrets / "elsewhere" / "link").symlink_to(secrets / "secrets.properties")
    limited = {"config.providers.file.param.allowed.paths": str(secrets / "elsewhere")}
    for path in ("secrets.properties", "elsewhere/../secrets.properties", "elsewhere/link"):
        with pytest.raises(SettingError, match="does not allow"):
            _filled(f"${{file:{secrets}/{path}:key}}", **limited)
    (secrets / "elsewhere" / "mine").write_text("key=allowed")
    assert _filled(f"${{file:{secrets}/elsewhere/mine:key}}", **limited) == "allowed"
    for bad, sentence in (("relative", "absolute"), (str(secrets / "none"), "does not exist")):
        with pytest.raises(SettingError, match=sentence):
            _filled("x", **{"config.providers.dir.param.allowed.paths": bad})


def test_allowed_variables():
    limited = {"config.providers.env.param.allowlist.pattern": "KAFKA_.*"}
    environment = {"KAFKA_A": "a", "OTHER_KAFKA_A": "b"}
    assert _filled("${env:KAFKA_A}", environment, **limited) == "a"
    with pytest.raises(SettingError, match="does not allow the environment variable OTHER_KAFKA_A"):
        _filled("${env:OTHER_KAFKA_A}", environment, **limited)
    with pytest.raises(SettingError, match="not a regular expression"):
        _filled("x", **{"config.providers.env.param.allowlist.pattern": "("})


def test_unknown_providers_are_refused():
    with pytest.raises(SettingError, match="class is not set"):
        fill_in({"config.providers": "file"}, {})
    with pytest.raises(SettingError, match=r"org\.example\.Vault, which only Java could load"):
        fill_in({"config.providers": "v", "config.providers.v.class": "org.example.Vault"}, {})


def test_a_broker_takes_its_settings_so(secrets):
    file = secrets / "server.properties"
    lines = [f"{name}={value}" for name, value in _ALL.items()]
    lines += [
        f"ssl.key.password=${{file:{secrets}/secrets.properties:key}}",
        "num.partitions=${env:PARTITIONS}",
    ]
    file.write_text("\n".join(lines))
    static = load(file=file, environment={"PARTITIONS": "7"})
    assert static.broker.ssl_key_password == "s3cret"
    assert static.broker.num_partitions == 7
    assert not any("config.providers" in warning or "s3cret" in warning for warning in static.warnings)


def test_a_broker_warns_of_a_variable_that_nothing_fills_in():
    static = load(overrides=["ssl.key.password=${file:/etc/secrets:key}"])
    assert static.broker.ssl_key_password == "${file:/etc/secrets:key}"
    assert any(
        "ssl.key.password names a value elsewhere" in warning and "/etc/secrets" not in warning
        for warning in static.warnings
    )
