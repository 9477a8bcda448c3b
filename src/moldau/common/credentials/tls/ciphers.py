"""Names of cipher suites: Kafka's settings have Java's (IANA's), OpenSSL has its own.

    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256  ->  ECDHE-RSA-AES128-GCM-SHA256
    TLS_AES_128_GCM_SHA256                     a suite of TLS 1.3: the same name in both

Python's ssl cannot choose among the suites of TLS 1.3, which are all sound: naming any of them allows all,
naming none leaves TLS 1.3 out.
"""

import re
from collections.abc import Iterable

_OF_TLS_1_3 = re.compile(
    r"^TLS_(AES_128_(GCM_SHA256|CCM(_8)?_SHA256)|AES_256_GCM_SHA384|CHACHA20_POLY1305_SHA256)$"
)
_OLDER = re.compile(r"^(?:TLS|SSL)_(?P<exchange>\w+?)_WITH_(?P<cipher>\w+)_(?P<hash>SHA\d*|MD5)$")


def of_tls_1_3(names: Iterable[str]) -> bool:
    """Whether any suite is one of TLS 1.3."""
    return any(_OF_TLS_1_3.match(name.upper()) for name in names)


def openssl_names(names: Iterable[str]) -> list[str]:
    """The suites of TLS 1.2 and before, by OpenSSL's names; a name that is no Java name stays as it is."""
    return [_openssl_name(name) for name in names if not _OF_TLS_1_3.match(name.upper())]


def _openssl_name(name: str) -> str:
    match = _OLDER.match(name.upper())
    if match is None:
        return name
    cipher = match["cipher"].replace("AES_128", "AES128").replace("AES_256", "AES256")
    if cipher == "CHACHA20_POLY1305":
        tail = "CHACHA20-POLY1305"  # OpenSSL leaves the hash out
    else:
        tail = f"{cipher.removesuffix('_CBC').replace('_', '-')}-{match['hash']}"
    exchange = "" if match["exchange"] == "RSA" else match["exchange"].replace("_", "-") + "-"
    return exchange + tail
