"""Where a client's OAUTHBEARER token comes from, by its settings, read as Kafka's client reads them.

    sasl.oauthbearer.token.endpoint.url=https://...   the client credentials grant (RFC 6749, 4.4), with
        sasl.oauthbearer.client.credentials.client.id / .secret, sasl.oauthbearer.scope;
        or in sasl.jaas.config: clientId="..." clientSecret="..." scope="..."
    sasl.oauthbearer.token.endpoint.url=file:///...   the file holds the token, and is read at each login
    sasl.oauthbearer.jwt.retriever.class=...JwtBearerJwtRetriever   the JWT bearer grant (jwt_assertion.py)
    unsecuredLoginStringClaim_sub="alice"             in sasl.jaas.config: a token without signature

A token from a provider is kept for this process's further logins until `sasl.login.refresh.window.factor` of
its life is over, or a broker refuses it. Blocking; a failure is a CredentialsError without secrets.
"""

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote_plus, unquote, urlencode, urlsplit

from moldau.common.credentials.client.jwt_assertion import GRANT, RETRIEVER, assertion
from moldau.common.credentials.client.options import SaslOptions
from moldau.common.credentials.errors import CredentialsError

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
RESPONSE_BYTES_MAX = 1024 * 1024
TIMEOUT_SECONDS = 30.0
_WINDOW_FACTOR = 0.8
_UNSECURED = "unsecuredLogin"
_UNSECURED_SECONDS = 3_600
_KEPT_MAX = 64


class _Kept(NamedTuple):
    token: str
    until_seconds: float


_kept: dict[tuple[Any, ...], _Kept] = {}
_lock = threading.Lock()


def token_for(sasl: SaslOptions) -> str:
    """A token for one login. CredentialsError."""
    url = sasl.settings.get(ENDPOINT)
    if url is None:
        return _unsecured(sasl.options)
    scheme = urlsplit(url).scheme
    if scheme == "file":
        return _from_file(url)
    if scheme not in ("http", "https"):
        raise CredentialsError(f"{ENDPOINT} must begin with https:, http: or file:")
    key = _key(sasl)
    with _lock:
        kept = _kept.get(key)
        if kept is not None and time.time() < kept.until_seconds:
            return kept.token
    token = _from_provider(sasl, url)
    with _lock:
        if len(_kept) >= _KEPT_MAX:
            _kept.clear()
        _kept[key] = _Kept(token, _refresh_seconds(sasl, token))
    return token


def forget_token(sasl: SaslOptions) -> None:
    """A broker refused the token: the next login asks for another."""
    with _lock:
        _kept.pop(_key(sasl), None)


def _key(sasl: SaslOptions) -> tuple[Any, ...]:
    return (tuple(sorted(sasl.settings.items())), tuple(sorted(sasl.options.items())))


def _from_file(url: str) -> str:
    path = unquote(urlsplit(url).path)
    try:
        with open(path, encoding="ascii") as file:
            token = file.read(RESPONSE_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"{ENDPOINT}: {path} cannot be read as a token: {_words(error)}") from None
    if not token:
        raise CredentialsError(f"{ENDPOINT}: {path} is empty")
    return token


def _words(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not ASCII"


def _from_provider(sasl: SaslOptions, url: str) -> str:
    from moldau.common.credentials.http_fetch import fetch, shown

    scope = _of(sasl, "sasl.oauthbearer.scope", "scope")
    form, headers = _grant(sasl)
    if scope:
        form["scope"] = scope
    try:
        response = fetch(
            url,
            body=urlencode(form).encode(),
            headers={**headers, "Content-Type": "application/x-www-form-urlencoded"},
            timeout_seconds=_timeout_seconds(sasl),
            bytes_max=RESPONSE_BYTES_MAX,
            tls=_tls(sasl.options),
        )
    except OSError as error:
        raise CredentialsError(f"no token from {shown(url)}: {error}") from None
    return _token_in(response.status, response.body, shown(url))


def _timeout_seconds(sasl: SaslOptions) -> float:
    """The time for all of a request: to connect, and to read the response."""
    parts = [sasl.settings.get(f"sasl.login.{part}.timeout.ms", "") for part in ("connect", "read")]
    given = [int(part) / 1_000 for part in parts if part.isdecimal()]
    return sum(given) if given else TIMEOUT_SECONDS


def _grant(sasl: SaslOptions) -> tuple[dict[str, str], dict[str, str]]:
    """The form and the headers by which the client shows who it is."""
    if sasl.settings.get("sasl.oauthbearer.jwt.retriever.class", "").rpartition(".")[2] == RETRIEVER:
        return {"grant_type": GRANT, "assertion": assertion(sasl.settings)}, {}
    client_id = _of(sasl, "sasl.oauthbearer.client.credentials.client.id", "clientId")
    secret = _of(sasl, "sasl.oauthbearer.client.credentials.client.secret", "clientSecret")
    if not client_id or secret is None:
        raise CredentialsError(
            f"{ENDPOINT} is set: name the client in sasl.oauthbearer.client.credentials.client.id and "
            'client.secret, or in sasl.jaas.config as clientId="..." clientSecret="..."'
        )
    if sasl.settings.get("sasl.oauthbearer.header.urlencode", "false").lower() == "true":
        client_id, secret = quote_plus(client_id), quote_plus(secret)
    basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    return {"grant_type": "client_credentials"}, {"Authorization": f"Basic {basic}"}


def _token_in(status: int, body: bytes, url: str) -> str:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    answer: Mapping[str, Any] = value if isinstance(value, dict) else {}
    if status != 200:
        reason = answer.get("error_description") or answer.get("error") or "no reason given"
        raise CredentialsError(f"{url} gave no token: HTTP status {status}: {str(reason)[:200]}")
    token = answer.get("access_token")
    if not isinstance(token, str) or not token:
        raise CredentialsError(f"{url} gave no token: its response has no access_token")
    return token


def _of(sasl: SaslOptions, setting: str, option: str) -> str | None:
    return sasl.settings.get(setting) or sasl.options.get(option)


def _tls(options: Mapping[str, str]) -> Any:
    """The TLS context of `ssl.*` in sasl.jaas.config; None: the system's certificates."""
    if not any(name.startswith("ssl.") for name in options):
        return None
    from moldau.common.credentials.tls.contexts import client_context
    from moldau.common.credentials.tls.options import tls_options

    return client_context(tls_options(options.get))


def _refresh_seconds(sasl: SaslOptions, token: str) -> float:
    """Until when a token is kept: a share of its life; not at all if it does not tell its end."""
    now = time.time()
    try:
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        end = float(claims["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return now
    try:
        factor = float(sasl.settings.get("sasl.login.refresh.window.factor", _WINDOW_FACTOR))
    except ValueError:
        factor = _WINDOW_FACTOR
    return now + (end - now) * min(max(factor, 0.0), 1.0)


def _unsecured(options: Mapping[str, str]) -> str:
    """A token without signature, with the claims of `unsecuredLogin...` options."""
    claims: dict[str, Any] = {}
    for name, value in options.items():
        for prefix, read in _CLAIMS.items():
            if name.startswith(_UNSECURED + prefix):
                claims[name.removeprefix(_UNSECURED + prefix)] = read(value)
    if not claims:
        raise CredentialsError(
            f"OAUTHBEARER needs {ENDPOINT}; or, for tests, a token without signature: sasl.jaas.config with "
            'unsecuredLoginStringClaim_sub="alice"'
        )
    now = time.time()
    lifetime = options.get(f"{_UNSECURED}LifetimeSeconds", str(_UNSECURED_SECONDS))
    if not lifetime.isdecimal():
        raise CredentialsError(f"{_UNSECURED}LifetimeSeconds is no number of seconds")
    claims = {"iat": now, "exp": now + int(lifetime), **claims}
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _encoded(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CredentialsError(f"{_UNSECURED}NumberClaim_ has a value that is no number") from None


def _list(text: str) -> list[str]:
    """A list as Kafka writes it: its first character separates."""
    return text[1:].split(text[0]) if text else []


_CLAIMS: Mapping[str, Callable[[str], Any]] = {
    "StringClaim_": str,
    "NumberClaim_": _number,
    "ListClaim_": _list,
}
