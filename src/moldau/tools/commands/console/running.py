"""The console in the foreground: its settings and its ready line."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from moldau.services.console.app import serve_console
from moldau.services.console.settings import console_configuration
from moldau.services.http.server import HttpServer
from moldau.tools.shared.foreground import Ready, Serve, announced, run_service

log = logging.getLogger("moldau.console")


def run_console(texts: Mapping[str, str], *, as_json: bool) -> int:
    """See `run_service`."""

    def start() -> Serve:
        configuration, warnings = console_configuration(texts)
        for warning in warnings:
            log.warning("%s", warning)

        def ready(server: HttpServer) -> Ready:
            cluster = configuration.settings.bootstrap_servers
            return (
                {"addresses": list(server.addresses), "bootstrap_servers": cluster},
                f"the console is ready at {', '.join(server.addresses)}; it shows the cluster at {cluster}",
            )

        return lambda: announced(serve_console(configuration), ready, as_json)

    return run_service(start)
