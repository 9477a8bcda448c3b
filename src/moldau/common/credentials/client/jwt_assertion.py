"""The assertion of the JWT bearer grant (RFC 7523, KIP-1139): a token by which a client shows an identity
provider who it is, instead of a secret.

    sasl.oauthbearer.assertion.file                  made elsewhere, read at each request; or made here of
    sasl.oauthbearer.assertion.private.key.file      the key (PEM; .private.key.passphrase) that signs it,
    sasl.oauthbearer.assertion.algorithm             RS256 or ES256,
    sasl.oauthbearer.assertion.template.file         {"header": {...}, "payload": {...}}, and over that
    sasl.oauthbearer.assertion.claim.*               aud iss sub, exp.seconds, nbf.seconds, jti.include
"""

import json
import secrets
import time
from collections.abc import Mapping
from typing import Any

from moldau.common.credentials.errors import CredentialsError, missing_extra

PREFIX = "sasl.oauthbearer.assertion."
RETRIEVER = "JwtBearerJwtRetriever"
"""The class in sasl.oauthbearer.jwt.retriever.class that asks for this grant."""
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ALGORITHMS = ("RS256", "ES256")
_FILE_BYTES_MAX = 1024 * 1024


def assertion(settings: Mapping[str, str]) -> str:
    """A new assertion. CredentialsError."""
    own = {
        name.removeprefix(PREFIX): value
        for name, value in settings.items()
        if name.startswith(PREFIX) and value != ""
    }
    if "file" in own:
        return _text(own["file"], "file").strip()
    if "private.key.file" not in own:
        raise CredentialsError(f"the JWT bearer grant needs {PREFIX}file or {PREFIX}private.key.file")
    algorithm = own.get("algorithm", "RS256")
    if algorithm not in ALGORITHMS:
        raise CredentialsError(f"{PREFIX}algorithm={algorithm} is none of {', '.join(ALGORITHMS)}")
    header, payload = _template(own)
    return _signed({**header, "alg": algorithm}, {**payload, **_claims(own)}, own)


def _claims(own: Mapping[str, str]) -> dict[str, Any]:
    now = int(time.time())
    claims: dict[str, Any] = {
        "iat": now,
        "exp": now + _seconds(own, "claim.exp.seconds", 300),
        "nbf": now - _seconds(own, "claim.nbf.seconds", 60),
    }
    claims |= {name: own[f"claim.{name}"] for name in ("aud", "iss", "sub") if f"claim.{name}" in own}
    if own.get("claim.jti.include", "false").lower() == "true":
        claims["jti"] = secrets.token_hex(16)
    return claims


def _seconds(own: Mapping[str, str], name: str, default: int) -> int:
    text = own.get(name, str(default))
    if not text.isdecimal():
        raise CredentialsError(f"{PREFIX}{name} is no number of seconds")
    return int(text)


def _template(own: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    if "template.file" not in own:
        return {}, {}
    try:
        value = json.loads(_text(own["template.file"], "template.file"))
        header, payload = value.get("header", {}), value.get("payload", {})
        return dict(header), dict(payload)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise CredentialsError(
            f'{PREFIX}template.file is not of the form {{"header": {{...}}, "payload": {{...}}}}'
        ) from None


def _signed(header: dict[str, Any], claims: dict[str, Any], own: Mapping[str, str]) -> str:
    try:
        from joserfc import jws
        from joserfc.errors import JoseError
        from joserfc.jwk import ECKey, RSAKey
    except ImportError:
        raise missing_extra("the JWT bearer grant", "joserfc") from None
    text = _text(own["private.key.file"], "private.key.file")
    kind = RSAKey if header["alg"].startswith("RS") else ECKey
    try:
        key = kind.import_key(text, password=own.get("private.key.passphrase"))
        registry = jws.JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
        registry.max_payload_length = _FILE_BYTES_MAX
        return jws.serialize_compact(header, json.dumps(claims), key, registry=registry)
    except (JoseError, ValueError, TypeError) as error:
        raise CredentialsError(
            f"{PREFIX}private.key.file cannot sign with {header['alg']}: {type(error).__name__}"
        ) from None


def _text(path: str, name: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read(_FILE_BYTES_MAX)
    except (OSError, UnicodeDecodeError) as error:
        words = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not ASCII"
        raise CredentialsError(f"{PREFIX}{name}: {path} cannot be read: {words}") from None
