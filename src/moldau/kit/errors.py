"""Errors of the kit, each a sentence: what happened, to what, and what to do."""

from __future__ import annotations


class KitError(Exception):
    """Something cannot run or continue."""


class BadCall(KitError, ValueError):
    """The program's own call is wrong."""


class Fenced(KitError):
    """Another process has taken over; this one must not write any more."""


class TimedOut(KitError, TimeoutError):
    """Something did not happen within the time given."""
