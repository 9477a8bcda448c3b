"""Breaks a module's source while it is imported (planted_faults.py has the list)."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from planted_faults import Planted


def planted_source(fault: Planted, source: str) -> str:
    """The module's source with the fault; ValueError when its place is not there exactly once."""
    count = source.count(fault.old)
    if count != 1:
        raise ValueError(
            f"{fault.name}: what it replaces is {count} times in {fault.module}, not once: bring its entry "
            "in tests/sim/planted_faults.py in line with the code"
        )
    return source.replace(fault.old, fault.new)


def source_of(module: str) -> str:
    """The source text of a module, which is not imported."""
    spec = importlib.util.find_spec(module)
    assert spec is not None, module
    assert spec.origin is not None, module
    return Path(spec.origin).read_text(encoding="utf-8")


def plant(fault: Planted) -> None:
    """Have the fault in this process from now on; its module must not have been imported."""
    assert fault.module not in sys.modules, f"{fault.module} is imported already"
    sys.meta_path.insert(0, _Finder(fault))


class _Finder(MetaPathFinder):
    def __init__(self, fault: Planted) -> None:
        self._fault = fault

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._fault.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None, fullname
        assert spec.origin is not None, fullname
        spec.loader = _Loader(fullname, spec.origin, self._fault)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, fault: Planted) -> None:
        super().__init__(fullname, path)
        self._fault = fault

    def get_code(self, fullname: str) -> CodeType:
        """Compiled anew, and not kept: nobody else shall import it."""
        path = self.get_filename(fullname)
        source = planted_source(self._fault, Path(path).read_text(encoding="utf-8"))
        return compile(source, path, "exec", dont_inherit=True)
