"""`moldau security certificates`: a private authority, and certificates for brokers and users."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from moldau.tools.shared.errors import UsageError
from moldau.tools.shared.options import Json, teach
from moldau.tools.shared.output import note, print_json

DEFAULT_FOLDER = Path("moldau-certificates")
DEFAULT_BROKER = "broker"
LOOPBACK_ADDRESS = "127.0.0.1"
LOOPBACK = ("localhost", LOOPBACK_ADDRESS, "::1")
DAYS_MAX = 3650

app = typer.Typer(no_args_is_help=True, help="Make certificates for TLS.")

HELP = """Make a private authority, and certificates for a broker and for users, in a folder.

Examples:

* moldau security certificates --user alice --user bob
* moldau security certificates --host broker-1.example --host 10.0.0.7 --broker broker-1
* moldau security certificates certs --user alice --renew

Each certificate comes with a file of settings: NAME.properties. Called again, the command keeps what is there
and adds what is new; --renew makes the named certificates anew (the broker's too if no user is named), with
the hosts that they had, which running brokers take up within seconds. Guard authority.key.pem: who has it can
make certificates. For a test bench or a cluster of your own; brokers read certificates of any other authority
just as well.
"""


@app.callback()
def _group() -> None:
    """Make `certificates` a command of its own, although it is the only one."""


@app.command(help=teach(HELP))
def certificates(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where they are written.")] = DEFAULT_FOLDER,
    broker: Annotated[
        str | None,
        typer.Option("--broker", metavar="NAME", help="The name of the broker's certificate; else: broker."),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="A name or address by which clients reach the broker; repeat it for several. This machine's "
            "own names are always in it. Without --host the settings listen on this machine only.",
        ),
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option("--user", metavar="NAME", help="A user, who gets a certificate; repeat it."),
    ] = None,
    days: Annotated[
        int, typer.Option("--days", min=1, max=DAYS_MAX, help="How long the certificates are valid.")
    ] = 825,
    renew: Annotated[
        bool, typer.Option("--renew", help="Make the named certificates anew, also where they are there.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make certificates (see HELP)."""
    from moldau.tools.commands.security.folder import CertificateFolder

    name_of_broker = broker or DEFAULT_BROKER
    if name_of_broker in (user or []):
        raise UsageError(f"{name_of_broker} is the broker's certificate here: give the user another name")
    made = CertificateFolder(folder, int(time.time() * 1000), days)
    hosts = list(dict.fromkeys([*(host or []), _name_of_machine(), *LOOPBACK]))
    address = "" if host else LOOPBACK_ADDRESS  # who names hosts wants to be reached from elsewhere
    made.add_broker(name_of_broker, hosts, address=address, renew=renew and (broker is not None or not user))
    for name in dict.fromkeys(user or []):
        made.add_user(name, renew=renew)
    if as_json:
        print_json({"folder": str(made.path), "hosts": hosts, "written": made.written, "kept": made.kept})
        return
    for name in made.written:
        print(f"written  {folder / name}")
    for name in made.kept:
        print(f"kept     {folder / name}")
    note(f"start a broker with it: moldau serve --config {folder / name_of_broker}.properties")
    if user:
        note(
            "and list topics as a user: moldau topics list --bootstrap-server localhost:9093 "
            f"--command-config {folder / user[0]}.properties"
        )


def _name_of_machine() -> str:
    import socket

    return socket.gethostname()
