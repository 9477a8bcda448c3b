"""From a Kerberos principal to a user name: `sasl.kerberos.principal.to.local.rules`, read as Kafka reads it.

    DEFAULT                         alice@OUR.REALM, alice/host@OUR.REALM -> alice
    RULE:[n:format](match)s/from/to/g/L
          n        applies to names of n parts (alice: 1, alice/host: 2)
          format   a text from them: $0 the realm, $1 $2 the parts
          match    a regular expression that the whole text must match
          s///g    replaces the first place, or (g) all, as sed does; $1 in `to` is a group
          /L       in lower case

Regular expressions run in RE2 (core/patterns.py), because clients choose the names.

The first rule that applies decides. If none does, or its result holds a `/` or `@`, the login is refused.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from moldau.common.core.patterns import Match, Pattern, PatternError, compile_pattern

_RULE = re.compile(
    r"(?:(?P<default>DEFAULT)|RULE:\[(?P<parts>\d*):(?P<format>[^\]]*)\]"
    r"(?:\((?P<match>[^)]*)\))?(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?)/?(?P<lower>L)?"
)
_NAME = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_PARAMETER = re.compile(r"\$(\d*)")
_REPLACEMENT = re.compile(r"\\(.)|\$(\d)", re.DOTALL)
NAME_CHARS_MAX = 1_024


class RuleError(ValueError):
    """A rule that cannot be read."""


class NoName(ValueError):
    """No rule makes a user name of the principal."""


class _Rule(NamedTuple):
    text: str
    is_default: bool
    parts: int
    format: str
    match: Pattern | None
    pattern: Pattern | None
    replacement: str
    replaces_all: bool
    to_lower: bool

    def apply(self, params: Sequence[str], default_realm: str) -> str | None:
        """The user name; None if the rule does not apply. `params`: the realm, then the parts."""
        if self.is_default:
            result = params[1] if params[0] == default_realm else None
        elif len(params) - 1 == self.parts:
            result = self._made(params)
        else:
            result = None
        if result is None:
            return None
        if "/" in result or "@" in result:
            raise NoName(f"the rule {self.text} makes a name with / or @ of it")
        return result.lower() if self.to_lower else result

    def _made(self, params: Sequence[str]) -> str | None:
        base = _PARAMETER.sub(lambda found: params[int(found[1])] if found[1] else "", self.format)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.pattern is None:
            return base
        return self.pattern.sub(
            lambda found: _replaced(self.replacement, found), base, count=0 if self.replaces_all else 1
        )


def _replaced(replacement: str, found: Match) -> str:
    """The replacement with its groups ($1) filled in, as Java does it."""
    return _REPLACEMENT.sub(
        lambda part: part[1] if part[2] is None else found[int(part[2])] or "", replacement
    )


class KerberosNames:
    """The rules of one listener."""

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        """RuleError for a rule that cannot be read."""
        self._rules = [_parsed(text) for text in rules or ("DEFAULT",)]
        self._default_realm = default_realm

    def user(self, principal: str) -> str:
        """The user name of a Kerberos principal (`alice/host@REALM`). NoName."""
        if "\\" in principal or not principal.isprintable() or len(principal) > NAME_CHARS_MAX:
            raise NoName("the principal holds escapes or control characters, or is too long")
        found = _NAME.fullmatch(principal)
        if found is None:
            if "@" in principal or "/" in principal or not principal:
                raise NoName("the principal has more than two parts or no realm")
            return principal
        service, host, realm = found.groups()
        if not service:
            raise NoName("the principal has an empty name")
        params = [realm, service] if host is None else [realm, service, host]
        for rule in self._rules:
            name = rule.apply(params, self._default_realm)
            if name:
                return name
        raise NoName("no rule of sasl.kerberos.principal.to.local.rules applies to the principal")


def _parsed(text: str) -> _Rule:
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise RuleError(f"the rule {text!r} is neither DEFAULT nor RULE:[n:format](match)s/from/to/g")
    if found["default"]:
        return _Rule(text, True, 0, "", None, None, "", False, bool(found["lower"]))
    if not found["parts"]:
        raise RuleError(f"the rule {text!r} does not say for how many parts it is: RULE:[1:$1]")
    parts, format_ = int(found["parts"]), found["format"]
    for parameter in _PARAMETER.findall(format_):
        if not parameter or int(parameter) > parts:
            raise RuleError(f"the rule {text!r} names ${parameter}; there are $0 to ${parts}")
    try:
        match = None if found["match"] is None else compile_pattern(found["match"])
        pattern = None if found["from"] is None else compile_pattern(found["from"])
    except PatternError as error:
        raise RuleError(f"the rule {text!r} has a regular expression that cannot be read: {error}") from None
    replacement = found["to"] or ""
    groups = 0 if pattern is None else pattern.groups
    for _, group in _REPLACEMENT.findall(replacement):
        if group and int(group) > groups:
            raise RuleError(f"the rule {text!r} names the group ${group}, and there are {groups}")
    return _Rule(
        text, False, parts, format_, match, pattern, replacement, bool(found["all"]), bool(found["lower"])
    )
