"""Runs one tool, and turns whatever it raises into a sentence and an exit code: never a traceback."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from moldau.tools.kafka.problems import FAILED, CommandLineError, Ended, ToolError
from moldau.tools.kafka.tools import TOOLS, bare, instead
from moldau.tools.shared.errors import CommandError

READER_GONE = 141
INTERRUPTED = 130
NO_SUCH_TOOL = 127


def run(name: str, words: Sequence[str]) -> int:
    """Run the tool `name` (with or without .sh, or a path to it) and return its exit code."""
    tool = TOOLS.get(bare(name))
    if tool is None:
        return _unknown_tool(name, words)
    module, _, function = tool.partition(":")
    try:
        try:
            code: int = getattr(importlib.import_module(module), function or "main")(words)
        finally:
            sys.stdout.flush()  # here, where a reader that went away is no surprise
    except Ended as said:
        _print(str(said), said.on_stdout)
        return said.code
    except CommandLineError as problem:
        _print(str(problem), problem.on_stdout)
        if problem.hint:
            _print(problem.hint, problem.on_stdout)
        return problem.code
    except ToolError as problem:
        _print(str(problem), problem.on_stdout)
        return problem.code
    except BrokenPipeError:
        _silence(sys.stdout)  # the reader of the output (`head`) went away
        return READER_GONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as failure:
        if os.environ.get("MOLDAU_TRACEBACK"):
            raise
        _print(f"{bare(name)}: {sentence(failure)}", False)
        return FAILED
    finally:
        _flush()
    return code


def sentence(failure: Exception) -> str:
    """Return what to tell the user about an exception: what the clients raise tells by itself; anything else
    is a fault of the tool.
    """
    if isinstance(failure, CommandError):
        return str(failure)
    if isinstance(failure, UnicodeEncodeError):
        return f"{failure.object!r} is not UTF-8 text"
    if "confluent_kafka" in sys.modules:
        from moldau.tools.shared.errors import explain_kafka_failure

        explained = explain_kafka_failure(failure)
        if explained is not None:
            return explained
    from moldau.client.errors import ClientError

    if isinstance(failure, ClientError | OSError):
        return str(failure)
    return (
        f"this is a fault of Moldau: {type(failure).__name__}: {failure} "
        "(MOLDAU_TRACEBACK=1 shows where; please report it)"
    )


def _unknown_tool(name: str, words: Sequence[str]) -> int:
    from moldau.tools.kafka.lines.usage import nearest

    advice = instead(name, words)
    if advice is not None:
        _print(f"{bare(name)} is no longer a tool of Kafka's, or not served here; {advice}", False)
        return NO_SUCH_TOOL
    likely = nearest(bare(name), TOOLS)
    meant = f"the nearest is {likely}; " if likely else ""
    _print(f"{name} is not a tool that Moldau serves: {meant}there are {', '.join(sorted(TOOLS))}", False)
    return NO_SUCH_TOOL


def _print(text: str, on_stdout: bool) -> None:
    stream = sys.stdout if on_stdout else sys.stderr
    try:
        print(text, file=stream, flush=True)
    except OSError:
        _silence(stream)


def _flush() -> None:
    """Write out what a tool that failed had printed before; the interpreter would, and fail, at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _silence(stream)


def _silence(stream: TextIO) -> None:
    """Send what is still in a stream's buffer nowhere: its pipe is closed, or its disk full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
