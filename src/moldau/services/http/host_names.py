"""Which names a service on loopback without a login answers to.

Whoever may open a page in a browser on this machine could reach such a service: the page's own host name is
made to lead to 127.0.0.1 (DNS rebinding), and the browser then takes our responses for that page's. It sends
the page's name in the Host header, so only names of this machine are answered. With a login, or on an address
that others reach, this is not needed: there the login is what protects.
"""

import ipaddress
import socket

from starlette.requests import Request

from moldau.services.http.problems import HttpProblem
from moldau.services.http.settings import HttpSettingsPart, listeners_of


class HostNames:
    """The names that are answered to, besides those of loopback."""

    def __init__(self, settings: HttpSettingsPart) -> None:
        own = [each.host for each in listeners_of(settings.listeners, 0)]
        told = settings.get_or_none("host.name")  # by which a registry's other instances reach this one
        names = [*settings.moldau_http_host_names, *own, str(told or ""), socket.gethostname()]
        self._more = frozenset(name.lower() for name in names if name)

    def check(self, request: Request) -> None:
        """HttpProblem 403: the request came over loopback, and means another host."""
        server = request.scope.get("server")
        if server is None or not _is_loopback(server[0]):
            return
        name = _name_of(request.headers.get("host", ""))
        if name and not (name == "localhost" or name.endswith(".localhost") or _is_loopback(name)):
            if name in self._more or "*" in self._more:
                return
            raise HttpProblem(
                403,
                f"this service listens on loopback without a login, and does not answer to the name "
                f"{name[:100]}; add it to moldau.http.host.names if it is yours",
            )


def _name_of(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
