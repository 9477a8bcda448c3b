"""Names of tests stay short, whatever their parameters.

pytest names a test by its parameters, whole: 100 MB of zeros make a name of 400 MB, which every worker of
pytest-xdist builds, sends, and is sent again with each report. A long text or long bytes are named by their
beginning and their length; pytest itself numbers names that are the same.
"""

from __future__ import annotations

SHORT = 60
_BEGINNING = 30


def short_name(value: object) -> str | None:
    """A name for a parameter that is a long text or long bytes; None leaves it to pytest."""
    if not isinstance(value, str | bytes) or len(value) <= SHORT:
        return None
    beginning = value[:_BEGINNING]
    text = beginning if isinstance(beginning, str) else beginning.decode("latin-1")
    return f"{text.encode('unicode_escape').decode('ascii')}...{len(value)}"
