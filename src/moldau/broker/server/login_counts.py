"""How many logins with SASL a listener has seen; what Kafka's socket-server-metrics count."""


class LoginCounts:
    """Counts since the start. `expired`: connections that were closed because their login had ended."""

    __slots__ = ("expired", "failed", "failed_again", "succeeded", "succeeded_again")

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0
        self.succeeded_again = 0
        self.failed_again = 0
        self.expired = 0

    def succeed(self, *, again: bool) -> None:
        """A login, or (`again`) a re-authentication, has ended well."""
        if again:
            self.succeeded_again += 1
        else:
            self.succeeded += 1

    def fail(self, *, again: bool) -> None:
        """A login, or (`again`) a re-authentication, was refused or broken off."""
        if again:
            self.failed_again += 1
        else:
            self.failed += 1
