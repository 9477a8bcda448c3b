"""A Kerberos realm for tests: a real KDC of MIT Kerberos (Debian's `krb5-kdc`, `krb5-user`), on a free port.

    with KerberosRealm(folder) as realm:
        realm.add("kafka/localhost", "alice")
        realm.keytab("alice")       the file with alice's key
        realm.environment           for programs that use the realm; KRB5_CONFIG alone suffices for clients

All of it is in one folder; nothing of the machine's own Kerberos is used or changed.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from moldau.testing.ports import ReservedPort, reserve_port

REALM = "MOLDAU.TEST"
_PROGRAMS = ("kdb5_util", "kadmin.local", "krb5kdc")
_FOLDERS = "/usr/sbin:/usr/local/sbin:/usr/lib/mit/sbin"
_START_SECONDS = 120

_CLIENT = """[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
 default_ccache_name = FILE:{folder}/ccache
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
"""
_SERVER = """[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
  supported_enctypes = aes256-cts-hmac-sha1-96:normal
 }}
[logging]
 kdc = FILE:{folder}/kdc.log
"""


def missing_programs() -> list[str]:
    """The programs of a KDC that are not installed here."""
    return [name for name in _PROGRAMS if _program(name) is None]


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_FOLDERS)


class KerberosRealm:
    """A realm with its KDC, as long as the context lasts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configuration = folder / "krb5.conf"
        self.environment = {
            **os.environ,
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5RCACHENAME": f"file2:{folder}/replays",
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._port: ReservedPort | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._port = reserve_port()
        port = self._port.number
        places = {"realm": REALM, "folder": self.folder, "port": port}
        self.configuration.write_text(_CLIENT.format(**places))
        (self.folder / "kdc.conf").write_text(_SERVER.format(**places))
        self._run("kdb5_util", "create", "-s", "-P", "test", "-r", REALM)
        program = _program("krb5kdc")
        assert program is not None
        with open(self.folder / "kdc.out", "wb") as output:
            self._process = subprocess.Popen(
                [program, "-n", "-r", REALM], env=self.environment, stdout=output, stderr=output
            )
        try:
            self._wait_until_it_listens(port)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
        if self._port is not None:
            self._port.release()

    def add(self, *principals: str, keytab: Path | None = None) -> None:
        """Add principals with random keys; each key is in a keytab of its own, or all in one."""
        for principal in principals:
            file = keytab or self.keytab(principal)
            self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
            self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {file} {principal}")

    def remove(self, principal: str) -> None:
        """Remove a principal; tickets that it has stay good."""
        self._run("kadmin.local", "-r", REALM, "-q", f"delprinc -force {principal}")

    def keytab(self, principal: str) -> Path:
        """The file with a principal's key."""
        return self.folder / f"{principal.replace('/', '_')}.keytab"

    def _run(self, name: str, *words: str) -> None:
        program = _program(name)
        assert program is not None, f"{name} is not installed"
        done = subprocess.run(
            [program, *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stderr.decode(errors='replace')}")

    def _wait_until_it_listens(self, port: int) -> None:
        import socket

        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"the KDC ended: {(self.folder / 'kdc.out').read_text()}")
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise RuntimeError("the KDC does not listen")
