"""What the HTTP sink and source share; the names are those of Confluent's HTTP connectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.connect.settings import Importance, Setting, SettingType

_NEEDED = {
    "BASIC": ("connection.user", "connection.password"),
    "BEARER": ("bearer.token",),
    "OAUTH2": ("oauth2.token.url", "oauth2.client.id", "oauth2.client.secret"),
}
_LOGIN, _REQUESTS = "Login", "Requests"


def check_codes(text: str | None) -> str | None:
    """For a setting: what is wrong with a list of status codes."""
    try:
        codes_of(text or "")
    except ValueError:
        return f"{text} is no list of status codes: write 500,502-504 or 500-"
    return None


def codes_of(text: str) -> tuple[range, ...]:
    """`408,429,500-` as ranges. ValueError."""
    ranges = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        first, dash, last = part.partition("-")
        end = int(last) if last.strip() else (599 if dash else int(first))
        ranges.append(range(int(first), end + 1))
    return tuple(ranges)


def headers_of(text: str | None, separator: str = "|") -> dict[str, str]:
    """`Name:value|Other:value`. ValueError."""
    headers = {}
    for part in filter(None, (each.strip() for each in (text or "").split(separator))):
        name, colon, value = part.partition(":")
        if not colon or not name.strip():
            raise ValueError(f"{part} is no header: write Name:value|Other:value")
        headers[name.strip()] = value.strip()
    return headers


def check_headers(text: str | None) -> str | None:
    """For a setting."""
    try:
        headers_of(text)
    except ValueError as problem:
        return str(problem)
    return None


HTTP_SETTINGS = (
    Setting(
        "auth.type",
        SettingType.STRING,
        "How to log in.",
        "NONE",
        Importance.HIGH,
        _LOGIN,
        choices=("NONE", "BASIC", "BEARER", "OAUTH2"),
    ),
    Setting("connection.user", SettingType.STRING, "With BASIC.", None, Importance.MEDIUM, _LOGIN),
    Setting("connection.password", SettingType.PASSWORD, "With BASIC.", None, Importance.MEDIUM, _LOGIN),
    Setting("bearer.token", SettingType.PASSWORD, "With BEARER.", None, Importance.MEDIUM, _LOGIN),
    Setting(
        "oauth2.token.url", SettingType.STRING, "Where tokens are given.", None, Importance.MEDIUM, _LOGIN
    ),
    Setting("oauth2.client.id", SettingType.STRING, "With OAUTH2.", None, Importance.MEDIUM, _LOGIN),
    Setting("oauth2.client.secret", SettingType.PASSWORD, "With OAUTH2.", None, Importance.MEDIUM, _LOGIN),
    Setting("oauth2.client.scope", SettingType.STRING, "With OAUTH2.", None, Importance.LOW, _LOGIN),
    Setting(
        "retry.on.status.codes",
        SettingType.STRING,
        "Answers after which a request is sent again: codes and ranges, as 429,500-.",
        "408,425,429,500-",
        Importance.MEDIUM,
        _REQUESTS,
        check=check_codes,
    ),
    Setting(
        "requests.per.second",
        SettingType.DOUBLE,
        "At most so many requests a second of one task; 0: as fast as it goes.",
        0.0,
        Importance.MEDIUM,
        _REQUESTS,
    ),
    Setting(
        "http.request.timeout.ms",
        SettingType.LONG,
        "How long an answer is waited for.",
        30_000,
        Importance.LOW,
        _REQUESTS,
    ),
    Setting(
        "http.connect.timeout.ms",
        SettingType.LONG,
        "How long a connection is waited for.",
        10_000,
        Importance.LOW,
        _REQUESTS,
    ),
    Setting(
        "http.response.bytes.max",
        SettingType.LONG,
        "A longer answer is refused.",
        64 << 20,
        Importance.LOW,
        _REQUESTS,
    ),
    Setting("http.proxy", SettingType.STRING, "As http://proxy:3128.", None, Importance.LOW, _REQUESTS),
    Setting(
        "https.ssl.verify",
        SettingType.BOOLEAN,
        "Check the server's certificate. Off only for tests.",
        True,
        Importance.LOW,
        _REQUESTS,
    ),
    Setting(
        "https.ssl.ca.location",
        SettingType.STRING,
        "A PEM file with the authorities to trust; none: the system's.",
        None,
        Importance.LOW,
        _REQUESTS,
    ),
)


def check_login(settings: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """What `auth.type` needs and is not given."""
    kind = settings["auth.type"].upper()
    return {
        name: [f"auth.type={kind} needs {name}"] for name in _NEEDED.get(kind, ()) if not settings.get(name)
    }
