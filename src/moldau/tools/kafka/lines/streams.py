"""Standard streams of a tool, whatever the shell or the terminal has made of them."""

from __future__ import annotations

import io
import os
import sys


def prepare_streams() -> None:
    """Make standard streams that any text goes through, and that are there.

    A name that the terminal's encoding lacks is printed with backslashes. A stream that was closed (`>&-`)
    becomes the null device: the next file or socket that is opened would get its number.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        stream = getattr(sys, name)
        if stream is None:
            stream = os.fdopen(number, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False)
            setattr(sys, name, stream)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace" if name == "stdin" else "backslashreplace")
