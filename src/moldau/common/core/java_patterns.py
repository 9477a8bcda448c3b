r"""Regular expressions of Java (java.util.regex) as Python's, for names of topics.

Kafka's tools hand --topic and --include to java.util.regex.Pattern and match the whole name. Most of its
syntax is Python's; what is not is translated:

    \p{Alpha} \p{Lu} \h [a-z&&[^x]] [a[b]]   a class becomes the ASCII characters that are in it
    (?<name>...) \k<name> \Q...\E \x{41} \z   written as Python writes them
    (?i) (?x) in the middle                  carried along: both cases in a class, blanks left out

A topic's name is ASCII ([a-zA-Z0-9._-]), so a class is a set of those characters, and flags about lines and
Unicode change nothing. Not here: look-behind without a fixed width, scripts and blocks that no name has.
"""

from __future__ import annotations

import re
import string
import unicodedata
import warnings
from typing import cast

from moldau.common.core.patterns import Pattern, PatternError, compile_pattern

Characters = frozenset[str]

_ASCII: Characters = frozenset(map(chr, range(128)))
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_CLASSES: dict[str, Characters] = {
    "d": frozenset(string.digits),
    "h": frozenset(" \t"),
    "s": frozenset(" \t\n\v\f\r"),
    "v": frozenset("\n\v\f\r"),
    "w": _WORD,
}
_PROPERTIES: dict[str, Characters] = {
    "lower": frozenset(string.ascii_lowercase),
    "upper": frozenset(string.ascii_uppercase),
    "ascii": _ASCII,
    "alpha": frozenset(string.ascii_letters),
    "digit": frozenset(string.digits),
    "alnum": frozenset(string.ascii_letters + string.digits),
    "punct": frozenset(string.punctuation),
    "graph": frozenset(string.ascii_letters + string.digits + string.punctuation),
    "print": frozenset(string.ascii_letters + string.digits + string.punctuation + " "),
    "blank": frozenset(" \t"),
    "cntrl": frozenset(map(chr, [*range(32), 127])),
    "xdigit": frozenset(string.hexdigits),
    "space": frozenset(" \t\n\v\f\r"),
}
_ALSO_KNOWN_AS = {
    "javalowercase": "lower",
    "javauppercase": "upper",
    "javaalphabetic": "alpha",
    "javaletter": "alpha",
    "javadigit": "digit",
    "javaletterordigit": "alnum",
    "isalphabetic": "alpha",
    "islatin": "alpha",
    "islowercase": "lower",
    "isuppercase": "upper",
    "isdigit": "digit",
    "isletter": "alpha",
    "ishex_digit": "xdigit",
    "iswhite_space": "space",
    "inbasiclatin": "ascii",
    "inbasic_latin": "ascii",
    "l1": "ascii",
    "lc": "alpha",
}
_CATEGORY = re.compile(r"L[ultmo]?|M[nec]?|N[dlo]?|Z[slp]?|C[cfons]?|P[dsecoif]?|S[mcko]?")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_NEVER = "(?!)"
_QUANTIFIER = re.compile(r"([*+?]|\{[0-9]+(?:,[0-9]*)?\})([?+]?)", re.ASCII)
_GROUP_NAME = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>", re.ASCII)
_FLAGS = re.compile(r"\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])", re.ASCII)


class NotTranslated(PatternError):
    """Java may understand it; this module does not."""


def compile_java(text: str, *, linear: bool = False) -> Pattern:
    """Compile a regular expression of Java's; match whole names with `fullmatch`. PatternError.

    RE2 takes what it can. Look-around and back-references, with which users leave topics out ("(?!__).*"),
    are left to Python's engine: the pattern is that of whoever typed the command, and only it can wait.
    `linear`: what RE2 does not take is refused, because others would wait, too.
    """
    try:
        whole = _Translation(_without_quotes(text)).whole()
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            in_python = re.compile(whole, re.ASCII)
        try:
            return compile_pattern(whole)
        except PatternError:
            if linear:
                raise
            return cast(Pattern, in_python)
    except (re.error, OverflowError, RecursionError) as problem:
        if "look-behind" in str(problem):
            raise NotTranslated("a look-behind must have a fixed width") from None
        raise PatternError(str(problem)) from None


def _without_quotes(text: str) -> str:
    r"""Return the text with a backslash before each sign that \Q...\E quotes, as Java does first of all."""
    begun, quote, rest = text.partition(r"\Q")
    while quote:
        # An escaped backslash before a Q begins no quotation; Java looks for the first \Q from the left.
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            more, quote, rest = rest.partition(r"\Q")
            begun += r"\Q" + more
            continue
        quoted, _, rest = rest.partition(r"\E")
        begun += "".join(each if each.isalnum() else f"\\{each}" for each in quoted)
        more, quote, rest = rest.partition(r"\Q")
        begun += more
    return begun


class _Translation:
    """Reads the text from left to right; `at` is the next character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._groups = 0
        self._names: dict[str, int] = {}
        self._closed: set[int] = set()

    def whole(self) -> str:
        """Return Python's form of the text."""
        found = self._alternatives()
        if self._at < len(self._text):
            raise PatternError("a ) has no (")
        return found

    def _peek(self, length: int = 1) -> str:
        return self._text[self._at : self._at + length]

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise PatternError("it ends too soon")
        self._at += 1
        return self._text[self._at - 1]

    def _took(self, word: str) -> bool:
        if not self._text.startswith(word, self._at):
            return False
        self._at += len(word)
        return True

    def _alternatives(self) -> str:
        """Read up to the ) of this group; flags that are set within it end with it."""
        flags, found = self._flags, []
        while (sign := self._peek()) and sign != ")":
            if "x" in self._flags and self._skipped_comment():
                continue
            if sign == "|":
                self._at += 1
                found.append("|")
            elif atom := self._atom():
                found.append(self._quantified(atom))
        self._flags = flags
        return "".join(found)

    def _skipped_comment(self) -> bool:
        if self._peek() == "#":
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end
            return True
        if self._peek() in _CLASSES["s"]:
            self._at += 1
            return True
        return False

    def _quantified(self, atom: str) -> str:
        while "x" in self._flags and self._peek() and self._skipped_comment():
            pass
        found = _QUANTIFIER.match(self._text, self._at)
        if found is None:
            if self._peek() == "{":
                raise PatternError("a { has no number")
            return atom
        self._at = found.end()
        if self._peek() and self._peek() in "*+?":
            raise PatternError(f"nothing is repeated by {self._peek()}")
        return f"(?:{atom}){found[0]}"

    def _atom(self) -> str:
        """Return the next thing that may be repeated; "" for what only sets flags."""
        sign = self._take()
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._written(self._class())
        if sign == "\\":
            return self._escape()
        if sign in "*+?":
            raise PatternError(f"nothing is repeated by {sign}")
        if sign == "{":
            self._at -= 1
            return "(?:)"  # Java repeats the nothing before it
        if sign in ".^$":
            return sign
        return self._written(self._cases(sign))

    def _group(self) -> str:
        if not self._peek().startswith("?"):
            return self._captured("(")
        for opening in ("?:", "?=", "?!", "?>", "?<=", "?<!"):
            if self._took(opening):
                return f"({opening}{self._rest_of_group()}"
        if self._took("?<"):
            found = _GROUP_NAME.match(self._text, self._at - 1)
            if found is None or found[1] in self._names:
                raise PatternError("a group's name is missing, or there twice")
            self._at = found.end()
            self._names[found[1]] = self._groups + 1
            return self._captured("(")
        flags = _FLAGS.match(self._text, self._at)
        if flags is None or set(flags[1] + (flags[2] or "")) - set("idmsuxU"):
            raise PatternError("a group begins with (? and nothing known")
        self._at = flags.end()
        before, self._flags = self._flags, (self._flags | set(flags[1])) - set(flags[2] or "")
        if flags[3] == ")":
            return ""
        inner = self._rest_of_group()
        self._flags = before
        return f"(?:{inner}"

    def _captured(self, opening: str) -> str:
        self._groups += 1
        number = self._groups
        inner = self._rest_of_group()
        self._closed.add(number)
        return opening + inner

    def _rest_of_group(self) -> str:
        inner = self._alternatives()
        if not self._took(")"):
            raise PatternError("a ( has no )")
        return f"{inner})"

    def _escape(self) -> str:
        """Translate what follows a backslash, outside of a class."""
        sign = self._peek()
        if sign in "bBAZ" and sign:
            self._at += 1
            self._took("{g}")
            return f"\\{sign}"
        if sign in "zG" and sign:
            self._at += 1
            return r"\Z" if sign == "z" else r"\A"
        if sign in "RX" and sign:
            self._at += 1
            return r"(?:\r\n|[\n-\r])" if sign == "R" else "."
        if sign == "k":
            self._at += 1
            found = _GROUP_NAME.match(self._text, self._at)
            if found is None or found[1] not in self._names:
                raise PatternError("no group has this name")
            self._at = found.end()
            return self._reference(self._names[found[1]])
        if sign in "123456789" and sign:
            return self._numbered()
        return self._written(self._escaped_class())

    def _numbered(self) -> str:
        number = int(self._take())
        while self._peek() in tuple(string.digits) and number * 10 + int(self._peek()) <= self._groups:
            number = number * 10 + int(self._take())
        return self._reference(number)

    def _reference(self, number: int) -> str:
        """A group that has not ended yet, or that there is not, has matched nothing: Java then fails."""
        if number not in self._closed:
            return _NEVER
        return rf"(?i:(?:\{number}))" if "i" in self._flags else rf"(?:\{number})"

    def _escaped_class(self) -> Characters:
        """Return the characters that an escape means, within a class or outside."""
        sign = self._take()
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign.lower() in _CLASSES:
            return _ASCII - _CLASSES[sign.lower()]
        if sign in "pP":
            named = self._property()
            return named if sign == "p" else _ASCII - named
        return self._cases(self._character(sign))

    def _character(self, sign: str) -> str:
        """Return the one character that a backslash and `sign` mean."""
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign == "c":
            return chr(ord(self._take()) ^ 64)
        if sign == "0":
            return self._octal()
        if sign == "x" and self._took("{"):
            return self._hexadecimal(self._up_to("}"))
        if sign in "xu":
            length = 2 if sign == "x" else 4
            digits = self._peek(length)
            self._at += length
            return self._hexadecimal(digits if len(digits) == length else "")
        if sign == "N" and self._took("{"):
            try:
                return unicodedata.lookup(self._up_to("}"))
            except KeyError:
                raise PatternError("no character has this name") from None
        if sign in string.ascii_letters:
            raise PatternError(f"\\{sign} means nothing")
        return sign

    def _octal(self) -> str:
        found = re.compile(r"[0-3][0-7]{2}|[0-7]{1,2}").match(self._text, self._at)
        if found is None:
            raise PatternError(r"\0 has no number")
        self._at = found.end()
        return chr(int(found[0], 8))

    def _hexadecimal(self, digits: str) -> str:
        if not digits or set(digits) - set(string.hexdigits) or int(digits, 16) > 0x10FFFF:
            raise PatternError(r"\x or \u has no number")
        return chr(int(digits, 16))

    def _up_to(self, end: str) -> str:
        found, closed, _ = self._text[self._at :].partition(end)
        if not closed:
            raise PatternError(f"a {end} is missing")
        self._at += len(found) + 1
        return found

    def _property(self) -> Characters:
        name = self._up_to("}") if self._took("{") else self._take()
        for kind in ("general_category", "gc"):
            if name.lower().startswith(f"{kind}="):
                name = name[len(kind) + 1 :]
        for kind in ("script", "sc", "block", "blk"):
            if name.lower().startswith(f"{kind}="):
                name = ("Is" if kind.startswith("sc") else "In") + name[len(kind) + 1 :]
        category = name.removeprefix("Is")
        if _CATEGORY.fullmatch(category):
            found = frozenset(each for each in _ASCII if unicodedata.category(each).startswith(category))
            return self._both_cases(found) if category in ("Lu", "Ll", "Lt") else found
        known = _PROPERTIES.get(_ALSO_KNOWN_AS.get(name.lower(), name.lower()))
        if known is None:
            raise NotTranslated(f"\\p{{{name}}} is not known")
        return self._both_cases(known) if known in (_PROPERTIES["lower"], _PROPERTIES["upper"]) else known

    def _class(self) -> Characters:
        """Read a class behind its [ and return its characters."""
        negated = self._took("^")
        begin = self._at
        found = self._operand()
        if self._at == begin:
            found = _ASCII  # nothing before &&
        while self._took("&&"):
            while self._took("&&"):
                pass
            if self._peek() != "]":
                found &= self._operand()
        if not self._took("]"):
            raise PatternError("a [ has no ]")
        return _ASCII - found if negated else found

    def _operand(self) -> Characters:
        """Return the union up to ] or &&. A ] that stands first is one of the characters."""
        found: Characters = frozenset()
        first = True
        while (sign := self._peek()) and (first or sign != "]") and not self._text.startswith("&&", self._at):
            if "x" in self._flags and self._skipped_comment():
                continue
            first = False
            found |= self._class_member()
        return found

    def _class_member(self) -> Characters:
        sign = self._take()
        if sign == "[":
            return self._class()
        if sign == "\\":
            begin = self._at
            members = self._escaped_class()
            if self._text[begin] in "dDhHsSvVwWpP":
                return members
            self._at = begin
            sign = self._character(self._take())
        if self._peek() != "-" or self._peek(2)[1:] in ("", "]", "["):
            return self._cases(sign)
        self._at += 1
        last = self._take()
        if last == "\\":
            last = self._character(self._take())
        if last < sign:
            raise PatternError(f"{sign}-{last} is no range")
        ends = min(ord(last), 127) + 1
        return self._both_cases(frozenset(map(chr, range(ord(sign), ends))))

    def _cases(self, sign: str) -> Characters:
        return self._both_cases(frozenset(sign))

    def _both_cases(self, found: Characters) -> Characters:
        return found | {each.swapcase() for each in found} if "i" in self._flags else found

    def _written(self, found: Characters) -> str:
        """Return Python's form of a class."""
        if not found:
            return _NEVER
        if len(found) == 1:
            return re.escape(*found)
        return f"[{''.join(map(re.escape, sorted(found)))}]"
