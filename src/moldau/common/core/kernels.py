"""The C kernels: used where they were compiled, else replaced by their twins in Python.

A kernel is an extension module beside a Python module that defines the interface of both and holds the twin.
`MOLDAU_KERNELS=python` in the environment selects the twins everywhere (for tests, and to rule out a kernel).
"""

import os
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

KERNELS = (
    "moldau.client._columns",
    "moldau.broker.log.compaction._kernel",
    "moldau.common.protocol._repeat",
    "moldau.common.records._headers",
    "moldau.common.records._usual",
    "moldau.common.records._walk",
    "moldau.schemas.columns._decode",
    "moldau.schemas.columns._encode",
)
"""All there are; setup.py builds them."""


def ruled_out() -> bool:
    """Whether the environment selects the twins."""
    return os.environ.get("MOLDAU_KERNELS") == "python"


def kernel(name: str) -> Any:
    """The extension module of this name, or None: use the twin."""
    assert name in KERNELS, name
    return None if ruled_out() else built(name)


def built(name: str) -> Any:
    """The extension module of this name, whatever the environment says; None if it was not compiled."""
    try:
        return import_module(name)
    except ImportError:
        return None


def missing() -> list[str]:
    """The kernels that are not used: not compiled, or ruled out by the environment."""
    if ruled_out():
        return list(KERNELS)
    return [name for name in KERNELS if not _is_built(name)]


def _is_built(name: str) -> bool:
    """Whether the extension module lies beside its twin. The package around it is not imported: it may need
    libraries that are not installed.
    """
    _, *packages, _ = name.split(".")
    folder = Path(__file__).parents[2].joinpath(*packages)
    return PathFinder.find_spec(name, [str(folder)]) is not None
