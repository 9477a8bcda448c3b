"""Number formats of a `-f` template, for printing and parsing: ascii, hexN, bigN, littleN, byte, bool.

Numbers that do not fit are cut to their lowest bits, as a C cast does.
"""

from __future__ import annotations

FIXED: dict[str, tuple[int, str]] = {
    "big64": (8, "big"),
    "big32": (4, "big"),
    "big16": (2, "big"),
    "big8": (1, "big"),
    "little64": (8, "little"),
    "little32": (4, "little"),
    "little16": (2, "little"),
    "little8": (1, "little"),
    "byte": (1, "big"),
}
"""Binary forms: how many bytes, in which order."""

HEX_DIGITS: dict[str, int] = {"hex64": 16, "hex32": 8, "hex16": 4, "hex8": 2, "hex4": 1}
"""Hexadecimal forms: how many digits."""

NUMBER_FORMS = ("ascii", *HEX_DIGITS, *FIXED, "bool")
"""Every form by name, as help lists them."""


def render_number(number: int, form: str) -> bytes:
    """Return `number` in the named format. KeyError for an unknown one."""
    if form in ("", "ascii", "number"):
        return b"%d" % number
    if form == "bool":
        return b"true" if number else b"false"
    if form in HEX_DIGITS:
        digits = HEX_DIGITS[form]
        return b"%0*x" % (digits, number & ((1 << 4 * digits) - 1))
    size, order = FIXED[form]
    return (number & ((1 << 8 * size) - 1)).to_bytes(size, "big" if order == "big" else "little")


def parse_fixed_number(data: bytes, form: str) -> int:
    """Parse a number from exactly the bytes of its format."""
    if form in HEX_DIGITS:
        return int(data, 16)
    return int.from_bytes(data, "big" if FIXED[form][1] == "big" else "little")


def fixed_size(form: str) -> int | None:
    """Return the size in bytes of a format; None for one that ends with its digits."""
    if form in HEX_DIGITS:
        return HEX_DIGITS[form]
    return FIXED[form][0] if form in FIXED else None
