"""crc32c, without importing its whole package.

The package `crc32c` reads its own version and builds a command line on import: argparse, zipfile, email and
importlib.metadata, 20 to 50 ms of a start that may take 250. Only one function of its extension module is
needed, so that module alone is loaded; if it is not found as expected, the package is imported.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def _load() -> Callable[..., int]:
    package = PathFinder.find_spec("crc32c")
    folders = package.submodule_search_locations if package is not None else None
    found = PathFinder.find_spec("crc32c._crc32c", folders) if folders else None
    if found is None or found.loader is None:
        import crc32c as whole

        return whole.crc32c
    extension = module_from_spec(found)
    found.loader.exec_module(extension)
    function: Callable[..., int] = extension.crc32c
    return function


crc32c = _load()
"""`crc32c(data, value=0)`: the checksum of `data` (bytes, bytearray, memoryview), going on from `value`."""
