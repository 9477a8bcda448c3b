"""The keys of a token issuer, as a JWKS document (RFC 7517) has them.

A token names the algorithm by which it is to be checked, and whoever forges one chooses that name. So the
name decides nothing that the key does not allow: each algorithm belongs to one type of key (and curve), and a
key is used with an algorithm of its own type only. An RSA key can never serve as the secret of HS256, and
there is no algorithm `none`.

    RS256 RS384 RS512 PS256 PS384 PS512   RSA
    ES256 ES384 ES512                     EC, of curve P-256, P-384, P-521
    EdDSA Ed25519 Ed448                   OKP
    HS256 HS384 HS512                     oct: a shared secret, from a file only

Keys that cannot be read, or are not for signatures, are left out, as an issuer may have keys for other uses.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from moldau.common.credentials.jwt.refused import TokenRefused, UnknownKey

if TYPE_CHECKING:
    from joserfc.jwk import Key

KEYS_MAX = 1_000
"""More keys of a document are not read."""
_TRIED_MAX = 16
"""So many keys are tried for a token that names none."""
_RSA_BITS_MAX = 16_384

ALGORITHMS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", ())),
    "ES256": ("EC", ("P-256",)),
    "ES384": ("EC", ("P-384",)),
    "ES512": ("EC", ("P-521",)),
    "EdDSA": ("OKP", ("Ed25519", "Ed448")),
    "Ed25519": ("OKP", ("Ed25519",)),
    "Ed448": ("OKP", ("Ed448",)),
    **dict.fromkeys(("HS256", "HS384", "HS512"), ("oct", ())),
}
"""For each algorithm: the type of its key, and its curves."""


class UnreadableKeys(ValueError):
    """The document is no JWKS."""


class IssuerKey(NamedTuple):
    """One public key, and what the document says about it. `algorithm` None: any that fits the key."""

    kid: str | None
    key_type: str
    curve: str | None
    algorithm: str | None
    key: "Key"

    def fits(self, algorithm: str) -> bool:
        """Whether the key may check a signature of this algorithm."""
        key_type, curves = ALGORITHMS[algorithm]
        if self.key_type != key_type or (curves and self.curve not in curves):
            return False
        return self.algorithm in (None, algorithm)


class KeySet:
    """An issuer's keys."""

    __slots__ = ("_keys",)

    def __init__(self, keys: tuple[IssuerKey, ...] = ()) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def for_token(self, algorithm: str, kid: str | None) -> list["Key"]:
        """The keys that may have signed a token with this header. UnknownKey, TokenRefused."""
        if algorithm not in ALGORITHMS:
            raise TokenRefused(f"its algorithm {algorithm[:20]!r} is not accepted")
        if kid is None:
            found = [each.key for each in self._keys if each.fits(algorithm)][:_TRIED_MAX]
        else:
            found = [each.key for each in self._keys if each.kid == kid and each.fits(algorithm)]
            if not found and any(each.kid == kid for each in self._keys):
                raise TokenRefused(f"the issuer's key {kid[:80]!r} is not one for {algorithm}")
        if not found:
            named = "" if kid is None else f" {kid[:80]!r}"
            raise UnknownKey(f"the issuer has no key{named} for {algorithm}")
        return found


def read_key_set(document: bytes, *, shared_secrets: bool = False) -> KeySet:
    """The keys of a JWKS document. UnreadableKeys if it is none, or holds no usable key. `shared_secrets`:
    whether keys of type `oct` are taken."""
    try:
        value = json.loads(document)
        rows = value["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UnreadableKeys("this is no JWKS document (a JSON object with a list `keys`)") from None
    if not isinstance(rows, list):
        raise UnreadableKeys("`keys` is not a list")
    keys = []
    for row in rows[:KEYS_MAX]:
        key = _issuer_key(row)
        if key is not None and (key.key_type != "oct" or shared_secrets):
            keys.append(key)
    if not keys:
        raise UnreadableKeys(f"none of its {len(rows)} keys can check a signature")
    return KeySet(tuple(keys))


def _issuer_key(row: object) -> IssuerKey | None:
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry

    if not isinstance(row, dict) or row.get("use", "sig") != "sig":
        return None
    if "key_ops" in row and "verify" not in (row["key_ops"] or ()):
        return None
    kid, curve, algorithm = row.get("kid"), row.get("crv"), row.get("alg")
    if not all(each is None or isinstance(each, str) for each in (kid, curve, algorithm)):
        return None
    # The private half, should a document have it, is not taken along.
    public = {name: row[name] for name in ("kty", "n", "e", "crv", "x", "y", "k") if name in row}
    if len(str(public.get("n", ""))) * 6 > _RSA_BITS_MAX:
        return None
    try:
        key = JWKRegistry.import_key(public)
        key_type = key.key_type
    except (JoseError, ValueError, TypeError, AttributeError, KeyError):
        return None
    return IssuerKey(kid, key_type, curve, algorithm, key)
