"""Writing Python source a line at a time: what the decoder and the encoder writer have in common.

Fields of fixed width that follow each other are collected in a *run* and packed or unpacked in one `struct`
call; `flush` writes the run out before anything that needs the bytes behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class SourceWriter:
    """Lines of a function under construction, with the objects that they refer to by name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.run: list[tuple[str, str]] = []  # struct letters, and the target or expression (none: padding)
        self._layouts: dict[str, str] = {}
        self._depth = 1
        self._counter = 0

    def line(self, text: str) -> None:
        """Add a line at the present depth."""
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a head line (`if`, `for`, `else`); what is written inside is indented below it."""
        self.line(head)
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """A variable name that nothing else uses."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def constant(self, prefix: str, value: Any) -> str:
        """A name under which the generated function finds `value`; the same value keeps its name."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def take_run(self, prefix: str, method: str) -> tuple[str, list[str], int]:
        """End the run: the name of its layout's `method`, its targets or expressions, its size in bytes."""
        letters = ">" + "".join(letters for letters, _ in self.run)
        expressions = [expression for _, expression in self.run if expression]
        self.run = []
        layout = struct.Struct(letters)
        if letters not in self._layouts:
            self._layouts[letters] = self.constant(prefix, getattr(layout, method))
        return self._layouts[letters], expressions, layout.size

    def function(self, head: str) -> Callable[..., Any]:
        """Compile the lines under `head`, which must define a function named `codec`."""
        namespace = dict(self.names)
        exec("\n".join([head, *self.lines]), namespace)
        compiled: Callable[..., Any] = namespace["codec"]
        return compiled
