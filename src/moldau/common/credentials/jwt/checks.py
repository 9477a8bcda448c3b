"""The checks of a token that a client logs in with (RFC 7519), as Kafka's brokers make them.

    header     an algorithm of key_set.py; nothing critical that is not understood (`crit`)
    signature  by a key of the issuer; before it is checked, nothing else of the token is read
    exp, iat   must be there; exp not past, nbf (if there) not to come, both give or take the clock skew
    iss        equal to sasl.oauthbearer.expected.issuer, if that is set
    aud        names one of sasl.oauthbearer.expected.audience; without it, a token for any is refused
    sub        the user's name, or another claim (sasl.oauthbearer.sub.claim.name)
    scope      text or a list of texts without repetition

Pure: time and keys are passed in. It may take some ms (a large token), so it runs on a worker.
"""

import base64
import json
import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.common.credentials.jwt.key_set import ALGORITHMS, KeySet
from moldau.common.credentials.jwt.refused import TokenRefused

if TYPE_CHECKING:
    from joserfc.jws import JWSRegistry

HEADER_BYTES_MAX = 16 * 1024
NAME_CHARS_MAX = 1_024
_SIGNATURE_BYTES_MAX = 4 * 1024
_MS = 1_000
_LATEST_SECONDS = 253_402_300_799
"""The end of the year 9999: a later `exp` counts as this."""


class Rules(NamedTuple):
    """What a token must say; the names are those of the settings `sasl.oauthbearer.*`."""

    expected_audience: tuple[str, ...] = ()
    expected_issuer: str | None = None
    sub_claim_name: str = "sub"
    scope_claim_name: str = "scope"
    clock_skew_ms: int = 30_000


class CheckedToken(NamedTuple):
    """A token that is accepted: the user's name, and until when."""

    name: str
    expires_ms: int
    scopes: tuple[str, ...] = ()


def check_token(token: str, keys: KeySet, rules: Rules, now_ms: int) -> CheckedToken:
    """The user that a token stands for. TokenRefused; UnknownKey if a newer key of the issuer may fit."""
    return check_claims(_verified(token, keys), rules, now_ms)


def _verified(token: str, keys: KeySet) -> Mapping[str, Any]:
    """The claims of a token, its signature checked."""
    from joserfc import jws
    from joserfc.errors import JoseError

    header = json_part(token.split(".", 1)[0], "header", HEADER_BYTES_MAX)
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str):
        raise TokenRefused("it names no algorithm")
    if not (kid is None or isinstance(kid, str)):
        raise TokenRefused("its key id is no text")
    if "crit" in header or "b64" in header:
        raise TokenRefused("its header demands what is not understood (crit)")
    candidates = keys.for_token(algorithm, kid)
    registry = _registry(len(token))
    try:
        signed = jws.extract_compact(token.encode(), registry=registry)
        if not any(jws.validate_compact(signed, key, registry=registry) for key in candidates):
            raise TokenRefused("its signature is not by a key of the issuer")
        return json_object(signed.payload, "claims")
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise TokenRefused(f"it cannot be read: {type(error).__name__}") from None


def _registry(size_bytes: int) -> "JWSRegistry":
    """joserfc's limits and algorithms, for a token of this size."""
    from joserfc.jws import JWSRegistry

    registry = JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
    registry.max_header_length = HEADER_BYTES_MAX
    registry.max_payload_length = size_bytes
    registry.max_signature_length = _SIGNATURE_BYTES_MAX
    return registry


def json_part(part: str, what: str, bytes_max: int) -> Mapping[str, Any]:
    """The JSON object in a part of a token. TokenRefused."""
    if len(part) > bytes_max:
        raise TokenRefused(f"its {what} is too large")
    try:
        decoded = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise TokenRefused(f"its {what} is no base64") from None
    return json_object(decoded, what)


def json_object(text: bytes, what: str) -> Mapping[str, Any]:
    """The JSON object in these bytes. TokenRefused."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise TokenRefused(f"its {what} is no JSON") from None
    if not isinstance(value, dict):
        raise TokenRefused(f"its {what} is no JSON object")
    return value


def check_claims(claims: Mapping[str, Any], rules: Rules, now_ms: int) -> CheckedToken:
    """The user that claims stand for. TokenRefused."""
    skew_ms = rules.clock_skew_ms
    expires_ms = _time_ms(claims, "exp")
    if expires_ms is None:
        raise TokenRefused("it has no end (claim exp)")
    if now_ms - skew_ms >= expires_ms:
        raise TokenRefused(f"it expired {(now_ms - expires_ms) // _MS} s ago")
    not_before_ms = _time_ms(claims, "nbf")
    if not_before_ms is not None and now_ms + skew_ms < not_before_ms:
        raise TokenRefused(f"it is not valid before {(not_before_ms - now_ms) // _MS} s from now")
    issued_ms = _time_ms(claims, "iat")
    if issued_ms is None:
        raise TokenRefused("it does not say when it was issued (claim iat)")
    for began_ms in (issued_ms, not_before_ms):
        if began_ms is not None and expires_ms < began_ms:
            raise TokenRefused("it ends before it begins")
    _check_issuer(claims.get("iss"), rules.expected_issuer)
    _check_audience(claims.get("aud"), rules.expected_audience)
    scopes = _scopes(claims, rules.scope_claim_name)
    return CheckedToken(_name(claims, rules.sub_claim_name), expires_ms, scopes)


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    """A claim in seconds, as milliseconds."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenRefused(f"its claim {name} is no number")
    # An integer may be too large for a float: only those have infinities.
    if (isinstance(value, float) and not math.isfinite(value)) or value < 0:
        raise TokenRefused(f"its claim {name} is no time")
    return int(min(value, _LATEST_SECONDS) * _MS)


def _check_issuer(issuer: object, expected: str | None) -> None:
    if expected is not None and issuer != expected:
        raise TokenRefused(f"its issuer is {_shown(issuer)}, not sasl.oauthbearer.expected.issuer={expected}")


def _check_audience(audience: object, expected: Collection[str]) -> None:
    named = audience if isinstance(audience, list) else [audience] if audience is not None else []
    if not all(isinstance(each, str) for each in named):
        raise TokenRefused("its audience is neither text nor a list of texts")
    if not expected and not named:
        return
    if not any(each in expected for each in named):
        asked = ",".join(expected) or "(not set)"
        raise TokenRefused(
            f"its audience is {_shown(audience)}, not one of sasl.oauthbearer.expected.audience={asked}"
        )


def _name(claims: Mapping[str, Any], claim: str) -> str:
    value = claims.get(claim)
    if not isinstance(value, str) or not value.strip():
        raise TokenRefused(f"its claim {claim}, the user's name, is missing or no text")
    name = value.strip()
    if len(name) > NAME_CHARS_MAX or any(ord(each) < 0x20 or ord(each) == 0x7F for each in name):
        raise TokenRefused(f"its claim {claim} is too long for a user's name, or holds control characters")
    return name


def _scopes(claims: Mapping[str, Any], claim: str) -> tuple[str, ...]:
    value = claims.get(claim)
    scopes = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if not all(isinstance(each, str) and each.strip() for each in scopes):
        raise TokenRefused(f"its claim {claim} holds an empty scope")
    stripped = tuple(each.strip() for each in scopes)
    if len(set(stripped)) < len(stripped):
        raise TokenRefused(f"its claim {claim} names a scope twice")
    return stripped


def _shown(value: object) -> str:
    return "missing" if value is None else repr(value)[:100]
