"""What the broker answers: apis/ has a file for each API, parts/ what several of them share."""

import importlib
import pkgutil

from moldau.broker.handlers import apis


def load_all() -> None:
    """Import every API's file, so that the table in parts/registry.py is complete."""
    for module in pkgutil.walk_packages(apis.__path__, f"{apis.__name__}."):
        importlib.import_module(module.name)
