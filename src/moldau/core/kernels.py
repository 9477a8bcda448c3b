"""The C kernels: found where the installation had a compiler, else replaced by their twins in Python.

A kernel is an extension module beside a module in Python that says what is asked of both and holds the twin.
`MOLDAU_KERNELS=python` in the environment chooses the twins everywhere (for tests, and to rule a kernel out).
"""

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any

KERNELS = (
    "moldau.client._columns",
    "moldau.log.compaction._kernel",
    "moldau.protocol._repeat",
    "moldau.records._usual",
    "moldau.records._walk",
)
"""All there are; setup.py builds them."""


def ruled_out() -> bool:
    """Whether the environment asks for the twins."""
    return os.environ.get("MOLDAU_KERNELS") == "python"


def kernel(name: str) -> Any:
    """The extension module of this name, or None: use the twin."""
    assert name in KERNELS, name
    return None if ruled_out() else built(name)


def built(name: str) -> Any:
    """The extension module of this name, whatever the environment says; None where it was not built."""
    try:
        return import_module(name)
    except ImportError:
        return None


def missing() -> list[str]:
    """The kernels that are not used: not built, or ruled out by the environment."""
    if ruled_out():
        return list(KERNELS)
    return [name for name in KERNELS if find_spec(name) is None]
