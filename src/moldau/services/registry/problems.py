"""What the registry refuses, with Confluent's error codes.

The status of the HTTP response is the code's first three digits: 42201 is 422. Incompatible schemas have the
code 409, which clients test for (Confluent's newest source has 40901; its documentation and releases 409).
"""

from enum import IntEnum


class Code(IntEnum):
    """Confluent's error codes."""

    SUBJECT_NOT_FOUND = 40401
    VERSION_NOT_FOUND = 40402
    SCHEMA_NOT_FOUND = 40403
    SUBJECT_SOFT_DELETED = 40404
    SUBJECT_NOT_SOFT_DELETED = 40405
    VERSION_SOFT_DELETED = 40406
    VERSION_NOT_SOFT_DELETED = 40407
    NO_SUBJECT_LEVEL = 40408
    NO_SUBJECT_MODE = 40409
    INCOMPATIBLE = 409
    INVALID_SCHEMA = 42201
    INVALID_VERSION = 42202
    INVALID_LEVEL = 42203
    INVALID_MODE = 42204
    NOT_PERMITTED = 42205
    REFERENCE_EXISTS = 42206
    ID_DOES_NOT_MATCH = 42207
    INVALID_SUBJECT = 42208
    SCHEMA_TOO_LARGE = 42209
    INVALID_RULE_SET = 42210
    CONTEXT_NOT_EMPTY = 42211
    STORE = 50001
    TIMEOUT = 50002
    FORWARDING = 50003
    NO_PRIMARY = 50004


class RegistryProblem(Exception):
    """An operation that was refused or failed: a code for programs and a sentence for people."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = int(error_code)
        self.message = message

    @property
    def status(self) -> int:
        """The status of the HTTP response."""
        return self.error_code if self.error_code < 1000 else self.error_code // 100


class NotPrimary(Exception):
    """A write came to an instance that may not write: forward it to `url` (http://host:port)."""

    def __init__(self, url: str) -> None:
        super().__init__(f"the primary is {url}")
        self.url = url
