"""The Python that Spark starts for its workers: this one, without Spark's zip file of itself.

Spark puts a zip file of pyspark first on the path of each Python process that it starts. It holds no compiled
code, so each process compiles some two hundred modules anew: 0.7 s of a core, and the first micro-batch of a
query waits for half a dozen processes one after the other. The same modules lie beside it as an installed
package, compiled. Spark has no setting for that path; so it is given a script as its Python, which leaves out
what is Spark's own and becomes the interpreter. The script also puts our daemon in the place of Spark's
(worker_daemon.py); Spark's setting for that holds for some of its daemons only. Processes that Spark starts
without a daemon begin in worker_start.py.

    PYTHONPATH   .../pyspark/python/lib/pyspark.zip : .../py4j-src.zip : .../spark-core.jar : yours
                 ^ left out                                                                    ^ kept

Only where the package that is installed is the Spark that runs: else the zip file is the right one.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import tempfile
from importlib import util
from pathlib import Path

from moldau.streams.java import cache_folder

SCRIPT = """#!/bin/sh
# Made by Moldau: Python for Spark's workers, which takes pyspark from its package and not from a zip file.
set -f
IFS=:
kept=
for each in $PYTHONPATH; do
    case $each in {home}/*) ;; *) kept=${{kept:+$kept:}}$each ;; esac
done
export PYTHONPATH="$kept"
unset IFS
case "$1 $2" in
"-m pyspark.daemon") shift 2; set -- -m moldau.streams.worker_daemon "$@" ;;
"-m pyspark."*) shift; set -- -m moldau.streams.worker_start "$@" ;;
esac
exec {python} "$@"
"""


def worker_python(cache: Path | None = None) -> str:
    """What PYSPARK_PYTHON should be: the path of the script, or of this interpreter where it would not do."""
    home = packaged_spark()
    if home is None or sys.platform == "win32":
        return sys.executable
    script = SCRIPT.format(home=shlex.quote(str(home)), python=shlex.quote(sys.executable))
    path = (cache or cache_folder()) / f"python-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    try:
        if not path.exists():
            _write(path, script)
    except OSError:  # no home to keep it in: that only costs time
        return sys.executable
    return str(path)


def packaged_spark() -> Path | None:
    """The folder of the installed package, if that is the Spark that will be run."""
    found = util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        return None
    home = Path(found.submodule_search_locations[0])
    chosen = os.environ.get("SPARK_HOME")
    if chosen and Path(chosen).resolve() != home.resolve():
        return None
    return home if (home / "jars").is_dir() else None


def _write(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(script)
    Path(unfinished).chmod(0o755)
    Path(unfinished).replace(path)
