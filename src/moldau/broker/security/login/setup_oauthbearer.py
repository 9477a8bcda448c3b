"""Makes OAUTHBEARER logins of a listener's settings: with an issuer's keys; or tokens without a signature,
where that is asked for by name."""

import logging
import ssl

from moldau.broker.security.login.oauthbearer import Check, OAuthBearer, signed_tokens
from moldau.broker.security.login.parts import Parts
from moldau.broker.security.login.steps import Begin
from moldau.common.credentials.jaas import JaasEntry
from moldau.common.credentials.jwt.checks import CheckedToken, Rules
from moldau.common.credentials.jwt.unsecured import HANDLER_NAME, UnsecuredRules, check_unsecured_token
from moldau.common.settings.prefixed import own_texts
from moldau.common.settings.rows import SettingError

log = logging.getLogger("moldau.security")

URL = "sasl.oauthbearer.jwks.endpoint.url"
HANDLER = "sasl.server.callback.handler.class"
_SECURED_HANDLERS = ("", "OAuthBearerValidatorCallbackHandler")
_SCHEMES = ("https", "http", "file")


def oauthbearer(parts: Parts) -> Begin:
    """What begins a login. SettingError: no keys to check tokens with, or something that is not served."""
    settings = parts.settings
    url = settings.sasl_oauthbearer_jwks_endpoint_url or None
    own = own_texts(settings, parts.listener).get(f"oauthbearer.{HANDLER}")
    handler = (own or settings.sasl_server_callback_handler_class or "").rpartition(".")[2]
    if handler == HANDLER_NAME:
        if url is not None:
            raise SettingError(
                URL, f"{URL} is set, and {HANDLER} asks for tokens without a signature: take one away"
            )
        check = _unsecured(parts)
    elif handler not in _SECURED_HANDLERS:
        raise SettingError(HANDLER, f"{HANDLER}={handler} is a Java class, which Moldau cannot run")
    elif url is None:
        raise SettingError(
            URL,
            f"the listener {parts.listener} offers OAUTHBEARER, and has no keys to check tokens with: "
            f"set {URL} to the https: or file: URL of the issuer's JWKS document",
        )
    else:
        check = _secured(parts, url)
    return lambda: OAuthBearer(check)


def _secured(parts: Parts, url: str) -> Check:
    scheme = url.partition(":")[0].lower()
    if scheme not in _SCHEMES:
        raise SettingError(URL, f"{URL}={url} must begin with https:, http: or file:")
    try:
        import joserfc.jwk  # noqa: F401 - whether it is there
    except ImportError:
        raise SettingError(
            URL, "OAUTHBEARER needs the package joserfc: pip install 'moldau[security]'"
        ) from None
    settings, outside = parts.settings, parts.outside
    assert outside is not None, "node.py passes it"
    rules = Rules(
        tuple(settings.sasl_oauthbearer_expected_audience),
        settings.sasl_oauthbearer_expected_issuer or None,
        settings.sasl_oauthbearer_sub_claim_name,
        settings.sasl_oauthbearer_scope_claim_name,
        settings.sasl_oauthbearer_clock_skew_seconds * 1_000,
    )
    options = _tls_options(parts.jaas)
    source = outside.keys.of(url, settings, (lambda: _context(dict(options))) if options else None, options)
    return signed_tokens(source, rules, parts.clock, outside.run)


def _tls_options(jaas: JaasEntry | None) -> tuple[tuple[str, str], ...]:
    """The `ssl.*` options of the JAAS entry, with which the issuer is reached."""
    if jaas is None:
        return ()
    return tuple((name, value) for name, value in sorted(jaas.options.items()) if name.startswith("ssl."))


def _context(options: dict[str, str]) -> ssl.SSLContext:
    from moldau.common.credentials.errors import CredentialsError
    from moldau.common.credentials.tls.contexts import client_context
    from moldau.common.credentials.tls.options import tls_options

    try:
        return client_context(tls_options(options.get))
    except CredentialsError as error:
        raise OSError(str(error)) from None


def _unsecured(parts: Parts) -> Check:
    try:
        rules = UnsecuredRules.of({} if parts.jaas is None else parts.jaas.options)
    except ValueError as error:
        raise SettingError("sasl.jaas.config", str(error)) from None
    log.warning(
        "the listener %s takes OAUTHBEARER tokens without a signature: anyone can log in as anybody",
        parts.listener,
    )

    async def check(token: str) -> CheckedToken:
        return check_unsecured_token(token, rules, parts.clock.now_ms())

    return check
