"""Maps names of certificates to users: `ssl.principal.mapping.rules`, read as Kafka reads it (KIP-371).

    RULE:^CN=(.*?),OU=(.*?)$/$1@$2/L,  RULE:pattern/replacement/,  DEFAULT

The first rule whose pattern matches the whole name (RFC 2253: CN=alice,OU=shop,O=Example) wins; L and U make
the result lower or upper case. DEFAULT takes the name as it is. The connection of a client whose name no rule
takes is refused.

Patterns run in RE2 (core/patterns.py): a name is chosen by whoever has the certificate. Java's look-ahead and
back-references within a pattern are refused at the start.

Rules are separated by commas; a slash in a pattern or replacement is written with a backslash in front.
"""

import re
from dataclasses import dataclass

from moldau.common.core.patterns import Match, Pattern, PatternError, compile_pattern

_RULE = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_SEPARATOR = re.compile(r"\s*(,|\n|$)\s*")
_REPLACEMENT = re.compile(r"\\(.)|\$(\d+)|\$\{(\w+)\}", re.DOTALL)


class MappingError(ValueError):
    """The rules cannot be read, or no rule takes a name; the message says so."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: Pattern | None  # None: DEFAULT
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        groups = self.pattern.groups
        mapped = self.pattern.sub(lambda match: self._expand(match, groups), name)
        return {"L": mapped.lower, "U": mapped.upper}.get(self.case, lambda: mapped)()

    def _expand(self, match: Match, groups: int) -> str:
        def part(found: re.Match[str]) -> str:
            escaped, digits, named = found.groups()
            if escaped is not None:
                return str(escaped)
            if named is not None:
                return match[named] or ""
            # As in Java: as many digits as name a group; what names none stays as it is.
            for end in range(len(digits), 0, -1):
                if int(digits[:end]) <= groups:
                    return (match[int(digits[:end])] or "") + digits[end:]
            return found[0]

        return _REPLACEMENT.sub(part, self.replacement)


class PrincipalMapping:
    """The rules of one listener."""

    def __init__(self, rules: str) -> None:
        """MappingError: the rules cannot be read."""
        self._rules = tuple(_parse(rules.strip()))

    def name_of(self, subject: str) -> str:
        """The user's name for a certificate's subject. MappingError: no rule takes it."""
        for rule in self._rules:
            mapped = rule.apply(subject)
            if mapped is not None:
                return mapped
        raise MappingError(f"no rule of ssl.principal.mapping.rules takes the name {subject}")


def _parse(rules: str) -> list[_Rule]:
    found: list[_Rule] = []
    at = 0
    while at < len(rules):
        match = _RULE.match(rules, at)
        if match is None:
            raise _invalid(rules[at:])
        default, pattern, replacement, case = match.groups()
        found.append(_Rule(None) if default else _rule(pattern, replacement, case))
        after = _SEPARATOR.match(rules, match.end())
        if after is None:
            raise _invalid(rules[match.start() :])
        at = after.end() if after.end() > match.start() else len(rules)
    return found or [_Rule(None)]


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    try:
        compiled = compile_pattern(pattern)
    except PatternError as error:
        raise MappingError(
            f"ssl.principal.mapping.rules: the pattern {pattern} cannot be read: {error}"
        ) from None
    for _, _, named in _REPLACEMENT.findall(replacement):
        if named and named not in compiled.groupindex:
            raise MappingError(f"ssl.principal.mapping.rules: the pattern {pattern} has no group {named}")
    return _Rule(compiled, replacement, case)


def _invalid(rest: str) -> MappingError:
    return MappingError(
        f"ssl.principal.mapping.rules: '{rest}' is not DEFAULT or RULE:pattern/replacement/ with L or U"
    )
