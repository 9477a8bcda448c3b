"""DER, the binary form of certificates and keys, as far as they are looked at here: tag, length, contents.

| tag 1 | length 1, or 0x80 + n and n bytes | contents |       (tags above 30 are not needed)
"""

from typing import NamedTuple

BOOLEAN, INTEGER, OCTETS, OID = 0x01, 0x02, 0x04, 0x06
SEQUENCE, SET = 0x30, 0x31


class Element(NamedTuple):
    """One element: its tag, its contents, and itself whole."""

    tag: int
    content: bytes
    whole: bytes


def only(data: bytes) -> Element:
    """The element that `data` is. ValueError: it is none, or more follows."""
    element, end = _read(data, 0)
    if end != len(data):
        raise ValueError("bytes follow the element")
    return element


def children(element: Element) -> list[Element]:
    """The elements in a constructed one. ValueError: they are damaged."""
    return elements(element.content)


def elements(data: bytes) -> list[Element]:
    """The elements that follow one another in `data`. ValueError: they are damaged."""
    found: list[Element] = []
    at = 0
    while at < len(data):
        element, at = _read(data, at)
        found.append(element)
    return found


def _read(data: bytes, at: int) -> tuple[Element, int]:
    if len(data) < at + 2 or data[at] & 0x1F == 0x1F:
        raise ValueError("it ends early, or has a tag that is not expected")
    length, start = data[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        if not 0 < count <= 4 or len(data) < start + count:
            raise ValueError("a length is wrong")
        length = int.from_bytes(data[start : start + count], "big")
        start += count
    end = start + length
    if end > len(data):
        raise ValueError("it ends early")
    return Element(data[at], data[start:end], data[at:end]), end


def oid_text(content: bytes) -> str:
    """The dotted form of an object identifier."""
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers:
        raise ValueError("an empty object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
