"""What is stored of a user's password for SCRAM. A module of its own: the metadata has it, also where nobody
logs in, and a broker then starts without the rest (scram.py)."""

from typing import NamedTuple


class ScramCredential(NamedTuple):
    """Salt and keys of one user and mechanism; none of them suffices to log in."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential([hidden], iterations={self.iterations})"
