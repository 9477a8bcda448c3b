"""JAAS notation, as Kafka reads it from `sasl.jaas.config`: a login module, a flag, options, a semicolon.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="admin" password="admin-secret"
        user_admin="admin-secret" user_alice="alice-secret";

A file of java.security.auth.login.config has such entries in sections: `KafkaServer { ... };`.

Values stand in double or single quotes, with Java's escapes, or bare. Words are of letters, digits and
`. - _ $`; comments are `//`, `/* */` and `#`. Errors name what is missing and the line, never a word of the
text: a password that is not quoted may be taken for an option's name.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<space>[\s]+|//[^\n]*|\#[^\n]*|/\*.*?\*/)
      | "(?P<double>(?:[^"\\\n]|\\.)*)"
      | '(?P<single>(?:[^'\\\n]|\\.)*)'
      | (?P<word>[\w.$:@/+~!%&*?|^-]+)
      | (?P<sign>[=;{}])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_QUOTED = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
_FLAGS = ("required", "requisite", "sufficient", "optional")


MODULES: Mapping[str, str] = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
"""The login module of each mechanism, without its package."""


class JaasError(ValueError):
    """Text that is not in JAAS notation; the message says what is missing, and holds no option's value."""


class JaasEntry(NamedTuple):
    """One login module with its options; `module` is a Java class name."""

    module: str
    flag: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"JaasEntry({self.module}, {self.flag}, [hidden])"

    @property
    def module_name(self) -> str:
        """The class name without its package."""
        return self.module.rpartition(".")[2]

    @property
    def text(self) -> str:
        """The entry in JAAS notation."""
        options = (f"{_quoted(name)}={_quoted(value)}" for name, value in self.options.items())
        return f"{' '.join((self.module, self.flag, *options))};"


def parse_jaas(text: str) -> JaasEntry:
    """The one login module of `sasl.jaas.config`. JaasError."""
    tokens = _Tokens(text)
    entries = list(_entries(tokens))
    if len(entries) != 1:
        raise JaasError(f"there are {len(entries)} login modules, and there should be one")
    return entries[0]


def parse_jaas_file(text: str) -> dict[str, list[JaasEntry]]:
    """The entries of a file with sections (`KafkaServer { ...; };`), by section. JaasError."""
    tokens = _Tokens(text)
    sections: dict[str, list[JaasEntry]] = {}
    while not tokens.at_end:
        name = tokens.value("the name of a section")
        tokens.sign("{", "after the name of a section")
        sections[name] = list(_entries(tokens, until="}"))
        tokens.sign("}", "at the end of a section")
        tokens.sign(";", "after a section")
    return sections


class _Tokens:
    """The tokens of a text: (is it a sign, text, position) each."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found = list(_tokens(text))
        self._next = 0

    @property
    def line(self) -> str:
        """Where the next token stands."""
        position = len(self._text) if self.at_end else self._found[self._next][2]
        return f"line {_line(self._text, position)}"

    @property
    def at_end(self) -> bool:
        return self._next >= len(self._found)

    def at_sign(self, sign: str) -> bool:
        return not self.at_end and self._found[self._next][:2] == (True, sign)

    def value(self, what: str) -> str:
        """The next word or quoted text."""
        if self.at_end or self._found[self._next][0]:
            raise JaasError(f"{self.line}: {what} is missing")
        self._next += 1
        return self._found[self._next - 1][1]

    def sign(self, sign: str, where: str) -> None:
        if not self.at_sign(sign):
            raise JaasError(f"{self.line}: a '{sign}' is missing {where}")
        self._next += 1


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _tokens(text: str) -> Iterator[tuple[bool, str, int]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError(
                f"line {_line(text, position)}: a quote is not closed, or a sign is there that JAAS has not"
            )
        start, position = position, match.end()
        if match["sign"]:
            yield True, match["sign"], start
        elif match["word"] is not None:
            yield False, match["word"], start
        elif match["space"] is None:
            quoted = match["double"] if match["double"] is not None else match["single"]
            yield False, _ESCAPE.sub(_unescape, quoted), start


def _unescape(match: re.Match[str]) -> str:
    sign = match[1]
    return chr(int(sign, 8)) if sign[0] in "01234567" else _ESCAPED.get(sign, sign)


def _quoted(text: str) -> str:
    return f'"{"".join(_QUOTED.get(sign, sign) for sign in text)}"'


def _entries(tokens: _Tokens, until: str | None = None) -> Iterator[JaasEntry]:
    while not tokens.at_end and not (until and tokens.at_sign(until)):
        module = tokens.value("the class of a login module")
        flag = tokens.value("the flag (required) of a login module").lower()
        if flag not in _FLAGS:
            raise JaasError(
                f"{tokens.line}: a login module is not followed by {', '.join(_FLAGS[:-1])} or {_FLAGS[-1]}"
            )
        options: dict[str, str] = {}
        while not tokens.at_end and not tokens.at_sign(";"):
            name = tokens.value("the name of an option")
            tokens.sign("=", "after the name of an option")
            options[name] = tokens.value("the value of an option")
        tokens.sign(";", "after the last option")
        yield JaasEntry(module, flag, options)
