"""One file an API: it translates, delegates, and registers itself with the versions it serves."""

import importlib
import pkgutil

_NOT_HANDLERS = {"broker", "exchange", "registry"}


def load_all() -> None:
    """Import every handler file, so that the table in `registry` is complete."""
    for module in pkgutil.iter_modules(__path__):
        if module.name not in _NOT_HANDLERS:
            importlib.import_module(f"{__name__}.{module.name}")
