"""An instance of the registry as a process that registers schemas without end, for tests that kill it.

    python registry_instance.py BOOTSTRAP TOPIC GROUP PORT NAME

Prints a line of JSON for everything that was acknowledged. Schemas are either of this process alone or one of
a few that all instances register, which must have one id whoever registers them.
"""

import json
import sys
import threading
import time

from moldau.services.registry.election.identity import Identity
from moldau.services.registry.problems import NotPrimary, RegistryProblem
from moldau.services.registry.service import RegistryService
from moldau.services.registry.settings import parse_registry_settings

SESSION_TIMEOUT_MS = 1_500
THREADS = 3
SHARED = 40


def service(bootstrap: str, topic: str, group: str, port: int) -> RegistryService:
    """An instance with short times."""
    parsed = parse_registry_settings(
        {
            "kafkastore.bootstrap.servers": bootstrap,
            "kafkastore.topic": topic,
            "schema.registry.group.id": group,
            "kafkastore.timeout.ms": "20000",
            "kafkastore.retry.backoff.ms": "20",
            "kafkastore.retry.backoff.max.ms": "200",
        }
    )
    identity = Identity("127.0.0.1", port)
    return RegistryService(parsed.settings, parsed.client, identity, session_timeout_ms=SESSION_TIMEOUT_MS)


def text_of(number: int, owner: str) -> str:
    """A schema of its own for each number of an owner."""
    return f'{{"type":"record","name":"r{number}","doc":"{owner}","fields":[]}}'


def register_for_ever(instance: RegistryService, name: str, output: threading.Lock) -> None:
    """Register, and print what was acknowledged."""
    number = 0
    while True:
        number += 1
        owner, chosen = ("all", number % SHARED) if number % 3 == 0 else (name, number)
        text = text_of(chosen, owner)
        try:
            answer = instance.register(f"{name}-{number}", {"schema": text})
        except NotPrimary:
            time.sleep(0.05)
            number -= 1
            continue
        except RegistryProblem as problem:
            print(f"{name}: {problem}", file=sys.stderr, flush=True)
            continue
        with output:
            line = {"subject": f"{name}-{number}", "id": answer["id"], "text": text}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


def main() -> None:
    bootstrap, topic, group, port, name = sys.argv[1:]
    instance = service(bootstrap, topic, group, int(port))
    instance.instance.start()
    output = threading.Lock()
    threads = [
        threading.Thread(target=register_for_ever, args=(instance, f"{name}-{index}", output), daemon=True)
        for index in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()  # until the parent closes it, or is gone


if __name__ == "__main__":
    main()
