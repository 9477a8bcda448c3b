"""Errors that end a tool: with Kafka's words and exit code, or for a wrong command line."""

from __future__ import annotations

FAILED = 1
"""Kafka's tools end with 1 on any failure, wrong options included; even --help ends so."""


class ToolError(Exception):
    """The tool failed: `text` is all that is printed, on standard error unless `on_stdout`."""

    def __init__(self, text: str, code: int = FAILED, *, on_stdout: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.on_stdout = on_stdout


class CommandLineError(ToolError):
    """The words cannot be understood. `hint` is what to type instead; "" where the text says it."""

    def __init__(self, text: str, hint: str = "", code: int = FAILED) -> None:
        super().__init__(text, code)
        self.hint = hint


class Ended(Exception):
    """The tool has said all (--help, --version) and ends with `code`."""

    def __init__(self, text: str, code: int, *, on_stdout: bool) -> None:
        super().__init__(text)
        self.code = code
        self.on_stdout = on_stdout
