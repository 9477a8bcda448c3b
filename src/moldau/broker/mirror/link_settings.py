"""A link's settings as texts: checked, and which of them are secrets."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from moldau.common.core.patterns import PatternError, compile_pattern
from moldau.common.credentials.client.options import client_security, is_security_setting
from moldau.common.credentials.errors import CredentialsError
from moldau.common.settings.mirror import MirrorSettings
from moldau.common.settings.rows import SettingError
from moldau.common.settings.table import parse_all

_SECRET_PARTS = ("password", "jaas", "secret", ".key", ".pem", "token")


def is_secret(name: str) -> bool:
    """Whether a link's setting of this name is never shown."""
    return any(part in name for part in _SECRET_PARTS) and not name.endswith((".location", ".type"))


def mirror_settings(texts: Mapping[str, str]) -> MirrorSettings:
    """What a link's settings say. SettingError for the first that is wrong or unknown."""
    own = [(name, value) for name, value in texts.items() if name in MirrorSettings.ROWS]
    for name in texts:
        if name not in MirrorSettings.ROWS and not is_security_setting(name):
            raise SettingError(name, f"{name} is no setting of a link")
    _refuse_files(texts)
    settings = parse_all(MirrorSettings, own)
    _check(settings)
    try:
        client_security(texts)
    except CredentialsError as error:
        raise SettingError("security.protocol", str(error)) from None
    if not settings.bootstrap_servers:
        raise SettingError("bootstrap.servers", "bootstrap.servers is missing: brokers of the other cluster")
    for server in settings.bootstrap_servers:
        address(server)
    return settings


_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_ASSERTIONS = "sasl.oauthbearer.assertion."


def _refuse_files(texts: Mapping[str, str]) -> None:
    """A file of the broker's that is read as a token goes to whom the link names: who may make links would
    read any file with it (in Kafka's clients: CVE-2025-27817).
    """
    for name, value in texts.items():
        as_token = name == _TOKEN_URL and urlsplit(value).scheme not in ("http", "https")
        if as_token or (name.startswith(_ASSERTIONS) and name.endswith(".file")):
            text = (
                f"{name}: a link sends no file of the broker's; name a token endpoint (https:) and a secret"
            )
            raise SettingError(name, text)


def address(server: str) -> tuple[str, int]:
    """Host and port. SettingError."""
    host, colon, port = server.strip().rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise SettingError("bootstrap.servers", f"bootstrap.servers: {server!r} is not host:port")
    return host.strip("[]"), int(port)


_PATTERNS = ("topics", "topics.exclude", "groups", "groups.exclude", "config.properties.exclude")


def _check(settings: MirrorSettings) -> None:
    for name in _PATTERNS:
        for pattern in settings.get(name):
            try:
                compile_pattern(pattern)
            except PatternError as error:
                raise SettingError(name, f"{name}: the pattern {pattern!r} cannot be used: {error}") from None


def matches(name: str, wanted: Sequence[str], unwanted: Sequence[str] = ()) -> bool:
    """Whether a name matches one of these patterns as a whole, and none of the others."""
    return _any(name, wanted) and not _any(name, unwanted)


def _any(name: str, patterns: Sequence[str]) -> bool:
    return any(name == each or compile_pattern(each).fullmatch(name) is not None for each in patterns)
