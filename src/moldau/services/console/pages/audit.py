"""What was changed through the console, by whom."""

from __future__ import annotations

from moldau.services.console.pages.call import Call
from moldau.services.console.pages.table import Data, Page
from moldau.services.http.rights import Kind, Operation


async def audit(call: Call) -> Data:
    """See the page's row."""
    call.check(Operation.READ, Kind.CLUSTER, "kafka")
    return {
        "lines": [each._asdict() for each in call.console.audit.newest()],
        "file": call.console.configuration.settings.moldau_console_audit_file or "",
    }


PAGES = (
    Page(
        "audit", "/audit", "audit.html", "audit", "Changes that were made or refused, the newest first", audit
    ),
)
