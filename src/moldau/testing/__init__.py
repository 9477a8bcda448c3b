"""A fresh broker in a fraction of a second, for tests: `moldau.testing.Broker`, and pytest fixtures in
`plugin`.

`Broker` is looked up on first use: pytest imports this package in every project that has Moldau installed,
and those that start no broker should not pay for its imports.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.testing.broker import Broker as Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> object:
    if name == "Broker":
        from moldau.testing.broker import Broker

        return Broker
    raise AttributeError(name)
