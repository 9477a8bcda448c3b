"""The REST proxy in the foreground: its settings and its ready line."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from moldau.services.http.server import HttpServer
from moldau.services.rest.app import serve_rest
from moldau.services.rest.settings import rest_configuration
from moldau.tools.shared.foreground import Ready, Serve, announced, run_service

log = logging.getLogger("moldau.rest")


def run_proxy(texts: Mapping[str, str], *, as_json: bool) -> int:
    """See `run_service`."""

    def start() -> Serve:
        configuration, warnings = rest_configuration(texts)
        for warning in warnings:
            log.warning("%s", warning)

        def ready(server: HttpServer) -> Ready:
            cluster = configuration.settings.bootstrap_servers
            return (
                {"addresses": list(server.addresses), "bootstrap_servers": cluster},
                f"the REST proxy is ready at {', '.join(server.addresses)} (page: {server.url}/ui); it "
                f"serves the cluster at {cluster}",
            )

        return lambda: announced(serve_rest(configuration), ready, as_json)

    return run_service(start)
