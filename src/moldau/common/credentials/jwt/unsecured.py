"""Tokens without a signature (`alg: none`), which anyone can make: for development only.

Kafka accepts them where OAUTHBEARER is enabled and nothing else is said. Here they must be asked for: by

    sasl.server.callback.handler.class=org.apache.kafka.common.security.oauthbearer.internals.unsecured.\
OAuthBearerUnsecuredValidatorCallbackHandler
"""

from collections.abc import Mapping
from typing import NamedTuple

from moldau.common.credentials.jwt.checks import (
    HEADER_BYTES_MAX,
    CheckedToken,
    Rules,
    check_claims,
    json_part,
)
from moldau.common.credentials.jwt.refused import TokenRefused

HANDLER_NAME = "OAuthBearerUnsecuredValidatorCallbackHandler"


class UnsecuredRules(NamedTuple):
    """What a token must say, as the options `unsecuredValidator...` in the JAAS configuration have it."""

    principal_claim_name: str = "sub"
    scope_claim_name: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "UnsecuredRules":
        """The rules in JAAS options. ValueError for a clock skew that is no number."""
        prefix = "unsecuredValidator"
        skew = options.get(f"{prefix}AllowableClockSkewMs", "0")
        if not skew.isdecimal():
            raise ValueError(f"{prefix}AllowableClockSkewMs must be a number of milliseconds, not {skew!r}")
        return cls(
            options.get(f"{prefix}PrincipalClaimName") or "sub",
            options.get(f"{prefix}ScopeClaimName") or "scope",
            tuple(options.get(f"{prefix}RequiredScope", "").split()),
            int(skew),
        )


def check_unsecured_token(token: str, rules: UnsecuredRules, now_ms: int) -> CheckedToken:
    """The user that a token without signature stands for. TokenRefused."""
    parts = token.split(".")
    if len(parts) != 3 or parts[2]:
        raise TokenRefused("it is signed, and only tokens without a signature are accepted here")
    if json_part(parts[0], "header", HEADER_BYTES_MAX).get("alg") != "none":
        raise TokenRefused("its algorithm is not none")
    claims = dict(json_part(parts[1], "claims", len(token)))
    claims.pop("aud", None)
    claims.setdefault("iat", 0)
    asked = Rules((), None, rules.principal_claim_name, rules.scope_claim_name, rules.clock_skew_ms)
    checked = check_claims(claims, asked, now_ms)
    given = {each for scope in checked.scopes for each in scope.split()}
    if not given.issuperset(rules.required_scope):
        raise TokenRefused(f"it lacks a scope of {' '.join(rules.required_scope)}")
    return checked
