"""Words, strings and signs of a .proto text, one at a time, with comments and white space left out.

A word is a run of letters, digits, `_`, `.` and `-`: names, numbers, `a.b.C`, `-inf`. Every other character
outside of quotes is a sign. Nothing is read twice: time is linear to the text.
"""

from __future__ import annotations

import re

from moldau.schemas.schema import InvalidSchema

_SKIPPED = re.compile(r"[ \t\r\n\f\v]+|//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"[A-Za-z0-9_.\-]+")
_PLAIN = re.compile(r"[^\"'\\\n]+")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]{1,8}|[0-9]{1,10})\Z")
INTEGER_MAX = 2**31 - 1


class Reader:
    """A position in a text, always before the next word, string or sign."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._skip()

    def _skip(self) -> None:
        while found := _SKIPPED.match(self._text, self._position):
            self._position = found.end()

    @property
    def sign(self) -> str:
        """The next character; "" at the end."""
        return self._text[self._position : self._position + 1]

    def take_sign(self, sign: str) -> bool:
        """Pass a sign if it is the next character."""
        if self.sign != sign:
            return False
        self._position += 1
        self._skip()
        return True

    def require(self, sign: str) -> None:
        """Pass a sign. InvalidSchema if another character is next."""
        if not self.take_sign(sign):
            raise self.unexpected(f"{sign!r} is expected")

    def word(self) -> str:
        """Take a word. InvalidSchema if there is none."""
        found = _WORD.match(self._text, self._position)
        if found is None:
            raise self.unexpected("a word is expected")
        self._position = found.end()
        self._skip()
        return found.group()

    def peek_word(self) -> str:
        """The next word, which stays; "" if there is none."""
        found = _WORD.match(self._text, self._position)
        return found.group() if found else ""

    def integer(self) -> int:
        """Take a number of at most 32 bits."""
        word = self.peek_word()
        if not _INTEGER.match(word):
            raise self.unexpected("a whole number is expected")
        value = int(word, 16 if "x" in word.lower() else 10)
        if not -INTEGER_MAX - 1 <= value <= INTEGER_MAX:
            raise self.unexpected("a number of 32 bits is expected")
        self.word()
        return value

    def string(self) -> str:
        """Take a quoted string, or several that follow each other."""
        if self.sign not in ("'", '"') or not self.sign:
            raise self.unexpected("a quoted string is expected")
        parts: list[str] = []
        while self.sign and self.sign in "'\"":
            self._quoted(parts)
            self._skip()
        return "".join(parts)

    def _quoted(self, parts: list[str]) -> None:
        text, quote, start = self._text, self._text[self._position], self._position
        self._position += 1
        while self._position < len(text):
            if found := _PLAIN.match(text, self._position):
                parts.append(found.group())
                self._position = found.end()
                continue
            character = text[self._position]
            self._position += 1
            if character == quote:
                return
            parts.append(self._escape() if character == "\\" else character)
        self._position = start
        raise self.unexpected("the string does not end")

    def _escape(self) -> str:
        character = self._text[self._position : self._position + 1]
        self._position += 1
        if character in "xX" and character:
            return self._number(16, 2, "0123456789abcdefABCDEF")
        if character in "01234567" and character:
            self._position -= 1
            return self._number(8, 3, "01234567")
        return _ESCAPES.get(character, character)

    def _number(self, base: int, digits_max: int, digits: str) -> str:
        start = self._position
        while (
            self._position < start + digits_max and self._text[self._position : self._position + 1] in digits
        ):
            if self._position >= len(self._text):
                break
            self._position += 1
        if self._position == start:
            raise self.unexpected("digits are expected behind the backslash")
        return chr(int(self._text[start : self._position], base))

    def unexpected(self, reason: str) -> InvalidSchema:
        """An error that says where the reader is."""
        before = self._text[: self._position]
        line, column = before.count("\n") + 1, self._position - before.rfind("\n")
        found = self.peek_word()[:40] or self.sign
        return InvalidSchema(
            f"line {line}, column {column}: {reason}, not {found!r}"
            if found
            else f"line {line}, column {column}: {reason}, and the text ends"
        )
