"""The registry in the foreground: its settings and its ready line."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.services.registry.problems import RegistryProblem
from moldau.services.registry.running import Running, serve_registry
from moldau.services.registry.settings import parse_registry_settings
from moldau.tools.shared.foreground import Ready, Serve, announced, run_service


def run_registry(texts: Mapping[str, str], *, is_read_only: bool, as_json: bool) -> int:
    """See `run_service`."""

    def start() -> Serve:
        parsed = parse_registry_settings(texts)

        def ready(running: Running) -> Ready:
            addresses, topic = running.server.addresses, parsed.settings.kafkastore_topic
            servers = ",".join(parsed.settings.kafkastore_bootstrap_servers)
            return (
                {"addresses": list(addresses), "bootstrap_servers": servers, "topic": topic},
                f"the schema registry is ready at {', '.join(addresses)}; schemas are kept in topic {topic} "
                f"of {servers}",
            )

        return lambda: announced(serve_registry(parsed, is_read_only=is_read_only), ready, as_json)

    return run_service(start, (RegistryProblem,))
