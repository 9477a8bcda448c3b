#!/bin/sh
# Brings what is not Python and the client tests use: kcat, a JDK with Maven, Node.js with npm, a Kerberos KDC,
# an MQTT server, MariaDB, a browser without a window.
# The package gssapi is built on Kerberos's headers, so it follows here, into the environment $1 (.venv).
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
PATH="$PATH:/usr/sbin:/usr/local/sbin"
have mariadbd || wanted="$wanted mariadb-server"
have krb5kdc || wanted="$wanted krb5-kdc krb5-admin-server"
have kinit || wanted="$wanted krb5-user"
have krb5-config || wanted="$wanted libkrb5-dev"
have mosquitto || wanted="$wanted mosquitto"
have chromium-headless-shell || have chromium || have chromium-browser || have google-chrome ||
    wanted="$wanted chromium-headless-shell"

if [ -n "$wanted" ] && [ "$(id -u)" = 0 ] && have apt-get; then
    apt-get update -qq >/dev/null 2>&1
    for package in $wanted; do
        echo "installing $package for the client tests"
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1
    done
fi

python=${1:-.venv}/bin/python
if [ -x "$python" ] && have krb5-config && ! "$python" -c 'import gssapi' 2>/dev/null; then
    echo "installing gssapi for the tests of Kerberos"
    "$python" -m pip install --quiet --disable-pip-version-check 'gssapi>=1.8' >/dev/null 2>&1 ||
        echo "gssapi could not be installed: the tests of Kerberos are skipped (they need a C compiler)"
fi

for need in kcat:kcat 'javac:a JDK 17 or newer' 'mvn:Maven' 'node:Node.js 18 or newer' 'npm:npm' 'krb5kdc:krb5-kdc and libkrb5-dev' mosquitto:mosquitto mariadbd:mariadb-server; do
    program=${need%%:*}
    have "$program" ||
        echo "$program was not found: the client tests that need it are skipped (install ${need#*:} to run them)"
done
have chromium-headless-shell || have chromium || have chromium-browser || have google-chrome ||
    echo "no Chromium was found: the test of the REST proxy's page is skipped (install chromium to run it)"
exit 0
