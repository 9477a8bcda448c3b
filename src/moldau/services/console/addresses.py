"""Addresses as people may see them: a name and password in a URL are for the service that it leads to."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit


def without_login(urls: str) -> str:
    """A URL, or several with commas, without names and passwords."""
    return ",".join(_one(each) for each in urls.split(","))


def _one(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
