"""What an X.509 certificate says (RFC 5280), as far as it matters here: names and validity.

    Certificate ::= SEQUENCE { tbs, signature algorithm, signature }
    tbs ::= SEQUENCE { [0] version, serial, algorithm, issuer, validity { from, until }, subject, public key,
                       ..., [3] extensions }

The subject is written as Java's X500Principal.getName() writes it (RFC 2253: the last part first), because
Kafka derives principals from that text. Not here: whether a certificate is to be trusted (OpenSSL decides).
"""

from calendar import timegm
from dataclasses import dataclass

from moldau.common.credentials.tls import der

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# By tag. A BMPString (1E) has two bytes a character, which Java's getName() takes one by one.
_STRINGS = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1B: "ascii", 0x1E: "latin-1"}
_UTC_TIME = 0x17
_EXTENSIONS = 0xA3
_ALTERNATIVE_NAMES = "2.5.29.17"
_OPTIONAL_VERSION = 0xA0
_NAME_KINDS = {0x81: "email", 0x82: "DNS", 0x86: "URI", 0x87: "IP"}
_ESCAPED = ',=+<>#;"\\'


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate's names and validity (milliseconds since the Unix epoch)."""

    subject: str
    issuer: str
    valid_from_ms: int
    valid_until_ms: int
    alternative_names: tuple[str, ...]
    """As KIND:value, sorted: DNS:broker.example, IP:127.0.0.1."""


def parse(data: bytes) -> Certificate:
    """A certificate from its DER form. ValueError: it is none."""
    fields = der.children(der.children(der.only(data))[0])
    if fields and fields[0].tag == _OPTIONAL_VERSION:
        fields = fields[1:]
    if len(fields) < 6:
        raise ValueError("it is no certificate")
    valid_from, valid_until = der.children(fields[3])
    return Certificate(
        subject=_name(fields[4]),
        issuer=_name(fields[2]),
        valid_from_ms=_time_ms(valid_from),
        valid_until_ms=_time_ms(valid_until),
        alternative_names=_alternative_names(fields),
    )


def _time_ms(element: der.Element) -> int:
    """YYMMDDHHMMSSZ until 2049, YYYYMMDDHHMMSSZ from 2050 on."""
    digits = element.content.decode("ascii").removesuffix("Z")
    if element.tag == _UTC_TIME:
        digits = ("20" if int(digits[:2]) < 50 else "19") + digits
    if len(digits) != 14 or not digits.isdigit():
        raise ValueError("a date is not as RFC 5280 writes it")
    parts = [int(digits[:4])] + [int(digits[at : at + 2]) for at in range(4, 14, 2)]
    return timegm((parts[0], parts[1], parts[2], parts[3], parts[4], parts[5])) * 1000


def _name(name: der.Element) -> str:
    parts = (
        "+".join(_attribute(*der.children(attribute)) for attribute in der.children(relative))
        for relative in reversed(der.children(name))
    )
    return ",".join(parts)


def _attribute(kind: der.Element, value: der.Element) -> str:
    oid = der.oid_text(kind.content)
    keyword, encoding = _KEYWORDS.get(oid), _STRINGS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or oid}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode(encoding, 'replace'))}"


def _escaped(text: str) -> str:
    core = text.strip(" ")
    leading = len(text) - len(text.lstrip(" ")) if core else len(text)
    trailing = len(text) - len(text.rstrip(" ")) if core else 0
    middle = "".join(f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in core)
    return "\\ " * leading + middle + "\\ " * trailing


def _alternative_names(fields: list[der.Element]) -> tuple[str, ...]:
    found: list[str] = []
    for field in fields[6:]:
        if field.tag != _EXTENSIONS:
            continue
        for extension in der.children(der.only(field.content)):
            parts = der.children(extension)
            if der.oid_text(parts[0].content) == _ALTERNATIVE_NAMES:
                names = der.children(der.only(parts[-1].content))
                found += [_alternative_name(each) for each in names]
    return tuple(sorted(found))


def _alternative_name(name: der.Element) -> str:
    kind = _NAME_KINDS.get(name.tag)
    if kind is None:
        return f"other:{name.whole.hex()}"
    if kind == "IP":
        from ipaddress import ip_address

        return f"IP:{ip_address(name.content)}"
    return f"{kind}:{name.content.decode('ascii', 'replace')}"
