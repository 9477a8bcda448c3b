#!/bin/sh
# Brings the programs of other languages that the client tests use: kcat, a JDK with Maven, Node.js with npm.
# As root on Debian or Ubuntu they are installed; elsewhere it says what is missing. Nothing here fails: a test
# whose program is missing is reported as skipped, with the reason.
set -u

have() { command -v "$1" >/dev/null 2>&1; }

wanted=
have kcat || wanted="$wanted kcat"
have javac || wanted="$wanted default-jdk-headless"
have mvn || wanted="$wanted maven"
have node || wanted="$wanted nodejs"
have npm || wanted="$wanted npm"

if [ -n "$wanted" ] && [ "$(id -u)" = 0 ] && have apt-get; then
    apt-get update -qq >/dev/null 2>&1
    for package in $wanted; do
        echo "installing $package for the client tests"
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1
    done
fi

for need in kcat:kcat 'javac:a JDK 17 or newer' 'mvn:Maven' 'node:Node.js 18 or newer' 'npm:npm'; do
    program=${need%%:*}
    have "$program" ||
        echo "$program was not found: the client tests that need it are skipped (install ${need#*:} to run them)"
done
exit 0
