"""Bearer tokens that an issuer has signed (JSON web tokens): the same checks as on Kafka's listeners.

    (the names begin with moldau.http)
    jwks.url         where the issuer's keys are: https:, http: or file:
    token.audience   one of these must be named; without it a token for anybody is refused
    token.issuer     who must have issued it

The keys are fetched when the first token comes, and kept fresh (credentials/jwt/key_source.py). The claim
`roles` (texts) gives the roles.
"""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote, urlsplit

from moldau.common.core.clock import SystemClock
from moldau.common.core.timers import LoopTimers
from moldau.common.credentials.http_fetch import fetch
from moldau.common.credentials.jwt.checks import Rules, check_token
from moldau.common.credentials.jwt.key_source import DOCUMENT_BYTES_MAX, KeySource
from moldau.common.credentials.jwt.refused import TokenRefused, UnknownKey
from moldau.common.settings.rows import SettingError
from moldau.services.http.context import Principal
from moldau.services.http.login import CheckToken
from moldau.services.http.settings import HttpSettingsPart

log = logging.getLogger("moldau.http")

_FETCH_SECONDS = 10.0
_REFRESH_MS = 3_600_000


def signed_token_check(settings: HttpSettingsPart) -> CheckToken | None:
    """The check, if a URL is set. SettingError: the URL or the package."""
    url = settings.moldau_http_jwks_url
    if not url:
        return None
    if urlsplit(url).scheme not in ("http", "https", "file"):
        raise SettingError(
            "moldau.http.jwks.url", f"moldau.http.jwks.url={url} must begin with https:, http: or file:"
        )
    try:
        import joserfc.jwk  # noqa: F401 - whether it is there
    except ImportError:
        raise SettingError(
            "moldau.http.jwks.url",
            "moldau.http.jwks.url needs the package joserfc: pip install 'moldau[security]'",
        ) from None
    return _Checker(url, settings).check


class _Checker:
    def __init__(self, url: str, settings: HttpSettingsPart) -> None:
        self._url = url
        self._rules = Rules(
            tuple(settings.moldau_http_token_audience),
            settings.moldau_http_token_issuer or None,
            settings.moldau_http_token_name_claim,
            settings.moldau_http_token_roles_claim,
        )
        self._clock = SystemClock()
        self._workers = ThreadPoolExecutor(2, "moldau-tokens")
        self._source: KeySource | None = None

    async def check(self, token: str) -> Principal | None:
        """Whose the token is; None: nobody's."""
        loop = asyncio.get_running_loop()
        if self._source is None:
            self._source = KeySource(
                self._url,
                self._load,
                lambda read: loop.run_in_executor(self._workers, read),
                self._clock,
                LoopTimers(loop),
                refresh_ms=_REFRESH_MS,
                retry_backoff_ms=100,
                retry_backoff_max_ms=10_000,
            )
        source = self._source
        try:
            if not len(source.keys):
                await source.newer()
            try:
                checked = await loop.run_in_executor(self._workers, self._checked, token, source)
            except UnknownKey:
                if not await source.newer():
                    return None
                checked = await loop.run_in_executor(self._workers, self._checked, token, source)
        except TokenRefused as refused:
            log.info("a token was refused: %s", refused)
            return None
        return checked

    def _checked(self, token: str, source: KeySource) -> Principal:
        found = check_token(token, source.keys, self._rules, self._clock.now_ms())
        return Principal(found.name, frozenset(found.scopes))

    def _load(self) -> bytes:
        parts = urlsplit(self._url)
        if parts.scheme == "file":
            with open(unquote(parts.path), "rb") as file:
                return file.read(DOCUMENT_BYTES_MAX)
        response = fetch(self._url, timeout_seconds=_FETCH_SECONDS, bytes_max=DOCUMENT_BYTES_MAX)
        if response.status != 200:
            raise OSError(f"HTTP status {response.status}")
        return response.body
