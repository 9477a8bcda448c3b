"""Error responses: `{"error_code": ..., "message": ...}`, as all of Confluent's HTTP services send them.

An error code of five digits begins with the HTTP status (40401 is sent with 404); one of three is the status.
"""

from collections.abc import Mapping
from http import HTTPStatus

_NO_HEADERS: Mapping[str, str] = {}


class HttpProblem(Exception):
    """A request cannot be answered; becomes the error response. `message` is for the person who asked."""

    def __init__(
        self,
        error_code: int,
        message: str,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message
        self.headers = headers

    @property
    def status(self) -> int:
        """The HTTP status that the error code belongs to."""
        return status_of(self.error_code)


def status_of(error_code: int) -> int:
    """The HTTP status of an error code; 500 for a code that has none."""
    status = error_code if error_code < 1000 else error_code // 100
    return status if 400 <= status <= 599 else 500


def plain_problem(status: int, headers: Mapping[str, str] = _NO_HEADERS) -> HttpProblem:
    """The problem that has no code of its own, in the words of Confluent's servers ("HTTP 404 Not Found")."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Error"
    return HttpProblem(status, f"HTTP {status} {phrase}", headers=headers)


def too_large(bytes_max: int) -> HttpProblem:
    """The body is larger than the service takes."""
    return HttpProblem(413, f"the request's body is larger than {bytes_max} bytes")
