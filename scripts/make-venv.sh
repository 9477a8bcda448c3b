#!/bin/sh
# Makes a virtual environment with a Python that is new enough: make-venv.sh DIRECTORY.
# PYTHON names the interpreter; without it the first of the usual names that is 3.11 or newer is taken.
set -eu
directory=$1

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

if [ -n "${PYTHON:-}" ]; then
    if ! new_enough "$PYTHON"; then
        echo "PYTHON=$PYTHON is not a Python 3.11 or newer: name another" >&2
        exit 1
    fi
    chosen=$PYTHON
else
    chosen=
    for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if new_enough "$name"; then
            chosen=$name
            break
        fi
    done
    if [ -z "$chosen" ]; then
        echo "Moldau needs Python 3.11 or newer, and none was found on the PATH:" >&2
        echo "install one, or name it: make PYTHON=/path/to/python3.12 demo" >&2
        exit 1
    fi
fi

# An environment that is already there and works is kept.
if [ -x "$directory/bin/python" ] && new_enough "$directory/bin/python" &&
    "$directory/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

rm -rf "$directory"
if "$chosen" -c 'import ensurepip, venv' 2>/dev/null; then
    "$chosen" -m venv "$directory"
elif "$chosen" -m virtualenv --version >/dev/null 2>&1; then
    "$chosen" -m virtualenv --quiet "$directory"
else
    version=$("$chosen" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "$chosen cannot make virtual environments, since its venv module is missing:" >&2
    echo "on Debian and Ubuntu, apt-get install python$version-venv brings it; then try again" >&2
    exit 1
fi
