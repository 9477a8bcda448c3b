"""A broker for tests, started in a fraction of a second: `moldau.testing.Broker`, and pytest fixtures in
`plugin`.

`Broker` is imported on first use: pytest imports this package in every project that has Moldau installed.
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
