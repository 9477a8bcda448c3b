#!/bin/sh
# Says which programs of other languages the client tests can use, and installs kcat where that is simple.
# Nothing here fails: a test whose program is missing is reported as skipped, with the reason.
set -u

if ! command -v kcat >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing kcat"
    apt-get install -y -qq kcat >/dev/null 2>&1 ||
        { apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq kcat >/dev/null 2>&1; }
fi

for need in kcat:kcat 'java:a JDK 17 or newer' 'mvn:Maven' 'node:Node.js 18 or newer' 'npm:npm'; do
    program=${need%%:*}
    command -v "$program" >/dev/null 2>&1 ||
        echo "$program was not found: the client tests that need it are skipped (install ${need#*:} to run them)"
done
exit 0
