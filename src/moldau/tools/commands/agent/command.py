"""`moldau agent`: run, status, submit."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from moldau.tools.shared import completion
from moldau.tools.shared.connection import librdkafka_settings
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    ClientSettings,
    Json,
    parse_assignments,
    teach,
)
from moldau.tools.shared.output import print_json, print_table

DEFAULT_FOLDER = Path("moldau-agent")
STATUS_TIMEOUT_SECONDS = 10.0

app = typer.Typer(
    no_args_is_help=True,
    help="A local delivery agent: takes messages onto this machine's disk, and delivers them to Kafka.",
    epilog="Try: moldau agent run   then: moldau agent submit greetings hello   and: moldau agent status",
)

Data = Annotated[
    Path,
    typer.Option("--data", "-d", metavar="DIR", envvar="MOLDAU_AGENT", help="The agent's folder."),
]
Socket = Annotated[
    Path | None,
    typer.Option(
        "--socket",
        metavar="FILE",
        envvar="MOLDAU_AGENT_SOCKET",
        help="The agent's Unix socket; agent.sock in its folder.",
    ),
]

RUN_HELP = """Run an agent until Ctrl-C (or SIGTERM).

A message is answered when it is on the agent's disk. It is delivered in order, exactly once (in transactions)
or at least once, whether or not a broker is there at the moment, and across crashes of the agent.

Examples:

* moldau agent run
* moldau agent run -b broker:9092 --data /var/spool/moldau --socket /run/moldau.sock --socket-mode 666
* moldau agent run --quota 'logs-*=1000000,100000000' --quota '*=0,500000000'

A quota is TOPICS=BYTES_PER_SECOND,SPOOL_BYTES: what matching topics may take each, 0 for no rate. The first
that matches counts; 0,268435456 if none does.
"""

SUBMIT_HELP = """Give the agent a message, or every line of standard input as one.

Examples:

* moldau agent submit orders 'one' --key customer7
* tail -F app.log | moldau agent submit logs
"""

STATUS_HELP = """Show what waits for each topic, what was delivered, refused and discarded.

The exit code is 0 while the agent delivers, 1 while it cannot or no agent runs.
"""


@app.command(help=teach(RUN_HELP))
def run(
    data: Data = DEFAULT_FOLDER,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    delivery: Annotated[
        str, typer.Option("--delivery", metavar="MODE", help="exactly-once or at-least-once.")
    ] = "exactly-once",
    agent_id: Annotated[
        str,
        typer.Option(
            "--id", metavar="ID", help="The agent's name in Kafka; chosen once, kept in its folder."
        ),
    ] = "",
    socket_path: Socket = None,
    socket_mode: Annotated[
        str, typer.Option("--socket-mode", metavar="OCTAL", help="Who may submit, as for chmod.")
    ] = "600",
    http: Annotated[
        str, typer.Option("--http", metavar="HOST:PORT", help="Messages, status and metrics; `off` for none.")
    ] = "127.0.0.1:9650",
    udp: Annotated[
        str, typer.Option("--udp", metavar="HOST:PORT", help="Messages in datagrams; `off` for none.")
    ] = "127.0.0.1:9650",
    quota: Annotated[
        list[str] | None,
        typer.Option("--quota", metavar="TOPICS=RATE,BYTES", help="What topics may take. May be repeated."),
    ] = None,
    discards_topic: Annotated[
        str,
        typer.Option(
            "--discards-topic", metavar="TOPIC", help="Where reports of discards go; `off` for none."
        ),
    ] = "moldau-agent-discards",
    message_bytes: Annotated[
        int, typer.Option("--message-bytes", min=1, max=100_000_000, help="The largest message.")
    ] = 900_000,
    topics_max: Annotated[int, typer.Option("--topics", min=1, help="The most topics it serves.")] = 100,
    as_json: Json = False,
) -> None:
    """Run an agent (see RUN_HELP)."""
    from moldau.kit.agent.settings import MODES, AgentSettings
    from moldau.tools.commands.agent.running import run_agent

    if delivery not in MODES:
        raise UsageError(f"--delivery {delivery!r} is not known: write {' or '.join(MODES)}")
    try:
        mode = int(socket_mode, 8)
    except ValueError:
        raise UsageError(f"--socket-mode {socket_mode!r} is not octal: write 600, 660 or 666") from None
    settings = AgentSettings(
        folder=data,
        bootstrap_servers=bootstrap,
        client=librdkafka_settings(parse_assignments(client_settings, "-X")),
        mode=delivery,
        agent_id=agent_id,
        socket=socket_path,
        socket_mode=mode,
        http=_loopback(http, "--http"),
        udp=_loopback(udp, "--udp"),
        quotas=tuple(map(_quota, quota or [])),
        discards_topic="" if discards_topic == "off" else discards_topic,
        message_bytes_max=message_bytes,
        topics_max=topics_max,
    )
    raise typer.Exit(run_agent(settings, as_json=as_json))


def _quota(text: str) -> Any:
    from moldau.kit.agent.settings import Quota

    pattern, _, limits = text.rpartition("=")
    rate, comma, spool_bytes = limits.partition(",")
    if not pattern or not rate.isdigit() or (comma and not spool_bytes.isdigit()):
        raise UsageError(
            f"--quota {text!r}: write TOPICS=BYTES_PER_SECOND,SPOOL_BYTES, such as 'logs-*=0,1000000'"
        )
    if not comma:
        return Quota(pattern, int(rate))
    if int(spool_bytes) < 1_000_000:
        raise UsageError(f"--quota {text!r}: a spool needs at least 1000000 bytes")
    return Quota(pattern, int(rate), int(spool_bytes))


def _loopback(text: str, option: str) -> tuple[str, int] | None:
    """HOST:PORT of this machine only: whoever reaches it may send."""
    if text == "off":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise UsageError(
            f"{option} {text!r} is not an address: write HOST:PORT, such as 127.0.0.1:9650, or off"
        )
    host = host.strip("[]")
    if host not in ("localhost", "::1") and not host.startswith("127."):
        raise UsageError(
            f"{option} {text!r}: the agent asks nobody who they are, so it serves 127.0.0.1 only"
        )
    return host, int(port)


def _socket_of(data: Path, named: Path | None) -> Path:
    return named or data / "agent.sock"


@app.command(help=teach(STATUS_HELP))
def status(data: Data = DEFAULT_FOLDER, socket_path: Socket = None, as_json: Json = False) -> None:
    """Show the agent's topics (see STATUS_HELP)."""
    said = _ask(_socket_of(data, socket_path))
    delivering = said["delivery"] == "delivering"
    if as_json:
        print_json(said)
    else:
        rows = [
            {
                "topic": topic,
                **{name: about[name] for name in ("waiting", "spool_bytes", "accepted", "delivered")},
                "refused": sum(about["refused"].values()),
                "discarded": sum(about["discarded"].values()),
                "held": about["held"],
            }
            for topic, about in said["topics"].items()
        ]
        headings = {name: name.upper().replace("_", "-") for name in rows[0]} if rows else {}
        print_table(rows, headings, empty="no message has come yet")
        elsewhere = said["elsewhere"]
        for what in ("refused", "discarded"):
            if elsewhere[what]:
                print(f"{what} without a topic: {json.dumps(elsewhere[what])}")
        print(f"delivery: {said['delivery']}{': ' if said['problem'] else ''}{said['problem']}")
    raise typer.Exit(0 if delivering else 1)


def _ask(path: Path) -> dict[str, Any]:
    answer = b""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(STATUS_TIMEOUT_SECONDS)
            connection.connect(str(path))
            connection.sendall(b"?status\n")
            while not answer.endswith(b"\n"):
                data = connection.recv(65_536)
                if not data:
                    raise ConnectionResetError("it closed the connection")
                answer += data
        said: dict[str, Any] = json.loads(answer)
        return said
    except (OSError, ValueError) as problem:
        raise _no_agent(path, problem) from None


def _no_agent(path: Path, problem: Exception) -> CommandError:
    why = getattr(problem, "strerror", None) or str(problem)
    return CommandError(
        f"no agent answers at {path} ({why}): "
        "start one with `moldau agent run`, or name its --data or --socket"
    )


@app.command(help=teach(SUBMIT_HELP))
def submit(
    topic: Annotated[str, typer.Argument(help="The topic.", autocompletion=completion.topics)],
    value: Annotated[
        str | None, typer.Argument(help="The message; standard input's lines if left out.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every message.")] = None,
    data: Data = DEFAULT_FOLDER,
    socket_path: Socket = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait for the agent's answer.")
    ] = 30.0,
) -> None:
    """Give the agent messages (see SUBMIT_HELP)."""
    from moldau.kit.agent_client import AgentClient, AgentRefused

    path = _socket_of(data, socket_path)
    coded_key = None if key is None else key.encode(errors="surrogateescape")
    try:
        with AgentClient(path, timeout_seconds=timeout if path.exists() else 0) as client:
            if value is not None:
                client.send(topic, value.encode(errors="surrogateescape"), coded_key)
            else:
                for line in sys.stdin.buffer:
                    client.send(topic, line.rstrip(b"\r\n"), coded_key)
    except AgentRefused as problem:
        raise CommandError(f"the agent refused the message: {problem}") from None
    except OSError as problem:
        raise _no_agent(path, problem) from None
