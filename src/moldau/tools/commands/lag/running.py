"""The lag service in the foreground: its settings and its ready line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from moldau.services.http.server import HttpServer
from moldau.services.lag.app import serve_lag
from moldau.services.lag.settings import configuration_of, configuration_of_file, single_cluster
from moldau.tools.shared.foreground import Ready, Serve, announced, run_service


def run_lag(
    file: Path | None,
    single: tuple[str, str, Mapping[str, str]],
    texts: Mapping[str, str],
    *,
    as_json: bool,
) -> int:
    """Watch the clusters of a file, or a single one (name, servers, client settings). See `run_service`."""

    def start() -> Serve:
        if file is not None:
            configuration = configuration_of_file(file, texts)
        else:
            configuration = configuration_of(single_cluster(*single), texts)
        names = [each.name for each in configuration.clusters]

        def ready(server: HttpServer) -> Ready:
            where = f"{server.url}/v3/kafka/{names[0]}/consumer"
            return (
                {"addresses": list(server.addresses), "clusters": names},
                f"the lag service is ready at {server.url} (groups: {where}); it watches {', '.join(names)}",
            )

        return lambda: announced(serve_lag(configuration), ready, as_json)

    return run_service(start)
