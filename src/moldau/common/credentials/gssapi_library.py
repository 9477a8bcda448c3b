"""The optional package gssapi (`moldau[kerberos]`), imported when it is first needed.

Both ends of GSSAPI (RFC 4752) use it: the broker accepts with a keytab, a client begins with a keytab or with
the tickets that `kinit` has brought. Every call into it may block (files, the KDC): never on an event loop.
"""

import importlib
from typing import Any

MISSING = (
    "GSSAPI needs the Python package gssapi, which needs the system's Kerberos (libkrb5-dev, krb5-devel): "
    "pip install 'moldau[kerberos]'"
)
AUTHENTICATION_ONLY = 1
"""The security layer `none`: what follows on the connection is neither signed nor encrypted by Kerberos."""
SIZE_BYTES = 3


class NoGssapi(Exception):
    """The package is not installed; the text says what to install."""


def load_gssapi() -> Any:
    """The package. NoGssapi."""
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError) as error:
        raise NoGssapi(f"{MISSING} ({error})") from None


def error_text(error: Exception) -> str:
    """What a GSSError says, in one line."""
    try:
        return " ".join(str(error).split())
    except Exception:  # it asks the library, which may fail at that too
        return type(error).__name__
