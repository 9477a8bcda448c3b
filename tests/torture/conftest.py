"""Short rounds run with all other tests; `make torture` (python -m torture, __main__.py) has long ones."""

from __future__ import annotations
