"""PEM: the blocks of a text, and a block made of DER.

    -----BEGIN CERTIFICATE-----
    base64, 64 characters a line
    -----END CERTIFICATE-----

Text around the blocks (bag attributes, comments) is skipped. A setting in a property file may have its line
ends as `\\n` or be one line with spaces instead; both are read.
"""

import base64
import binascii
import re
from typing import NamedTuple

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


class Block(NamedTuple):
    """One block: its label, for example CERTIFICATE, and the lines between its markers, as they are."""

    label: str
    body: str

    @property
    def text(self) -> str:
        """The block as PEM, line by line."""
        headers, _, rest = self.body.strip().rpartition("\n\n")  # of a key encrypted the old way
        lines = rest.split()
        top = f"{headers.strip()}\n\n" if headers else ""
        return f"-----BEGIN {self.label}-----\n{top}" + "\n".join(lines) + f"\n-----END {self.label}-----\n"

    @property
    def der(self) -> bytes:
        """What is inside. ValueError: not base64."""
        try:
            return base64.b64decode("".join(self.body.split()), validate=True)
        except binascii.Error as error:
            raise ValueError(f"a block {self.label} is not base64: {error}") from None

    @property
    def is_key(self) -> bool:
        """Whether it is a private key."""
        return self.label.endswith("PRIVATE KEY")

    @property
    def is_encrypted(self) -> bool:
        """Whether it is a private key under a password."""
        return self.label == "ENCRYPTED PRIVATE KEY" or "ENCRYPTED" in self.body


def blocks(text: str) -> list[Block]:
    """All blocks of a text, in order."""
    text = text.replace("\\n", "\n").replace("\r\n", "\n")
    return [Block(match[1], match[2]) for match in _BLOCK.finditer(text)]


def block_of(label: str, der: bytes) -> Block:
    """A block with these contents."""
    encoded = base64.b64encode(der).decode()
    return Block(label, "\n" + "\n".join(encoded[at : at + 64] for at in range(0, len(encoded), 64)) + "\n")
