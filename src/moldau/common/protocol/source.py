"""Writes Python source line by line; the base of the decoder and encoder writers.

Adjacent fields of fixed width are collected in a *run* and packed or unpacked in one `struct` call; `flush`
writes the run before anything that needs the bytes after it.

The source of a compiled function is registered in `linecache` under message, version and kind of function, so
that tracebacks and debuggers show its lines; a few kilobytes each.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def codec_title(cls: type, version: int, kind: str, sliced: bool) -> str:
    """The title of the function that encodes or decodes one version of a message."""
    return f"{'sliced ' if sliced else ''}{kind} of {cls.__module__}.{cls.__qualname__} v{version}"


class SourceWriter:
    """Lines of a function, and the objects that they refer to by name."""

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
        """A variable name that is not in use."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def constant(self, prefix: str, value: Any) -> str:
        """A name for `value` in the generated function; the same value keeps its name."""
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

    def function(self, head: str, title: str) -> Callable[..., Any]:
        """Compile the lines under `head`, which must define a function named `codec`.

        `title` identifies the function among all generated ones: tracebacks show it as the file's name.
        """
        namespace = dict(self.names)
        source = "\n".join([head, *self.lines])
        file_name = f"<generated {title}>"
        exec(compile(source, file_name, "exec"), namespace)
        # No modification time: linecache then never looks for a file of this name.
        linecache.cache[file_name] = (len(source), None, source.splitlines(keepends=True), file_name)
        compiled: Callable[..., Any] = namespace["codec"]
        return compiled
