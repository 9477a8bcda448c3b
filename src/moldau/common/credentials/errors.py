"""Errors of configured credentials: a sentence for the person who configured them, without the secrets."""


class CredentialsError(Exception):
    """Keys, certificates or passwords cannot be used; the message says which, why, and what to do."""


class MissingPackage(CredentialsError):
    """An optional package is needed, and not installed."""


def missing_extra(what: str, package: str) -> MissingPackage:
    """The error where an optional package is needed; `what` needs it."""
    return MissingPackage(f"{what} needs the package {package}: pip install 'moldau[security]'")
