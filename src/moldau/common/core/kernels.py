"""The C kernels: used where they were compiled, else replaced by their twins in Python.

A kernel is an extension module beside a Python module that defines the interface of both and holds the twin.
`MOLDAU_KERNELS=python` in the environment selects the twins everywhere (for tests, and to rule out a kernel).
Every kernel is optional when Moldau is installed (setup.py), so each twin serves those who have neither a
wheel nor a compiler; that it is a test's oracle too is not why it is here.

In a checkout the extension modules stay as they were built while the source goes on (`git pull`), so each has
the version of its interface. One that was built from another version is not used, with a warning: its twin
does the same work, where a call of it might fail in the midst of an append.
"""

import logging
import os
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

KERNELS = {
    "moldau.client._columns": 1,
    "moldau.broker.log.compaction._kernel": 1,
    "moldau.common.protocol._repeat": 1,
    "moldau.common.records._headers": 1,
    "moldau.common.records._usual": 1,
    "moldau.common.records._walk": 1,
    "moldau.schemas.columns._decode": 1,
    "moldau.schemas.columns._encode": 1,
}
"""All there are, which setup.py builds, and the version of each one's interface: KERNEL_VERSION in its C."""
REBUILD = "python setup.py build_ext --inplace --force"
"""Run where the source is; an installed wheel has kernels of its own version."""

_log = logging.getLogger("moldau.kernels")


def ruled_out() -> bool:
    """Whether the environment selects the twins."""
    return os.environ.get("MOLDAU_KERNELS") == "python"


def kernel(name: str) -> Any:
    """The extension module of this name, or None: use the twin."""
    return None if ruled_out() else built(name)


def built(name: str) -> Any:
    """The extension module of this name, whatever the environment says; None if it was not compiled, or from
    another version of the source (which is logged as a warning)."""
    expected = KERNELS[name]
    try:
        module = import_module(name)
    except Exception as error:  # also what a module of another version raises while it is made
        if _found(name) is not None and not ruled_out():
            _log.warning("The C kernel %s cannot be loaded (%s), and is not used: %s", name, error, _ADVICE)
        return None
    if (version := _version(module)) != expected:
        _log.warning(
            "The C kernel %s was built from another version of the source (its interface is %d, not %d), and "
            "is not used: %s",
            name,
            version,
            expected,
            _ADVICE,
        )
        return None
    return module


def missing() -> list[str]:
    """The kernels that are not there: not compiled, or ruled out by the environment."""
    if ruled_out():
        return list(KERNELS)
    return [name for name in KERNELS if _found(name) is None]


def stale() -> list[str]:
    """The kernels that are there, but were built from another version of the source."""
    if ruled_out():
        return []
    return [name for name in KERNELS if (spec := _found(name)) is not None and not _fits(name, spec)]


def complaints() -> list[str]:
    """A sentence for each kernel that is there and is not used, for a log: also for those that this process
    has not met, such as that of compaction, which runs in a process of its own."""
    return [f"The C kernel {name} does not fit this version of the source: {_ADVICE}" for name in stale()]


_ADVICE = f"its twin in Python is slower. Build it again: {REBUILD}"


def _version(module: ModuleType) -> int:
    """The version of a kernel's interface; those from before there were versions: 0."""
    version: int = getattr(module, "KERNEL_VERSION", 0)
    return version


def _found(name: str) -> ModuleSpec | None:
    """The extension module beside its twin. The package around it is not imported: it may need libraries that
    are not installed.
    """
    _, *packages, _ = name.split(".")
    folder = Path(__file__).parents[2].joinpath(*packages)
    return PathFinder.find_spec(name, [str(folder)])


def _fits(name: str, spec: ModuleSpec) -> bool:
    """Whether the module that was found can be loaded and is of the right version."""
    try:
        module = module_from_spec(spec)
        assert spec.loader is not None
        spec.loader.exec_module(module)
    except Exception:
        return False
    return _version(module) == KERNELS[name]
