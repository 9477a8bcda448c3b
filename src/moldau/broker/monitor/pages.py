"""The pages of the HTTP port: /, /health, /health/live, /health/ready, /metrics.

    /health/live     200 if the event loop runs
    /health/ready    200 when clients are served, else 503 with the cause
    /health          the verdict with causes and remedies; 503 only when failing; JSON, or text for a browser
    /metrics         Prometheus's text format

The HTTP server gets the table `routes`.
"""

from collections.abc import Mapping

from moldau.broker.monitor.conditions import Condition
from moldau.broker.monitor.exposition import CONTENT_TYPE
from moldau.broker.monitor.health import Health, Verdict
from moldau.broker.monitor.metrics import Metrics
from moldau.broker.monitor.overview import overview, plain_text
from moldau.broker.monitor.page import HTML, Ask, Page, Route, json_page, text_page

DESCRIPTIONS = {
    "/": "this overview",
    "/health": "the verdict, its causes and what to do about them (JSON; ?format=text for people)",
    "/health/live": "200 while the broker runs",
    "/health/ready": "200 while clients are served, else 503 with the cause",
    "/metrics": "metrics for Prometheus",
}


class Pages:
    """The pages of one broker."""

    def __init__(self, health: Health, metrics: Metrics) -> None:
        self._health = health
        self._metrics = metrics

    def routes(self) -> Mapping[str, Route]:
        """Each path and its function."""
        return {
            "/": self.overview,
            "/health": self.health,
            "/health/live": self.live,
            "/health/ready": self.ready,
            "/metrics": self.metrics,
        }

    def live(self, ask: Ask) -> Page:
        """Any response proves it."""
        if ask.headers.get("accept", "").startswith("application/json"):
            return json_page({"live": True})
        return text_page("live")

    def ready(self, ask: Ask) -> Page:
        """Whether clients are served, and if not, the cause."""
        cause = self._health.verdict().unready
        status = 200 if cause is None else 503
        if ask.headers.get("accept", "").startswith("application/json"):
            causes = [] if cause is None else [_cause(cause)]
            return json_page({"ready": cause is None, "causes": causes}, status)
        if cause is None:
            return text_page("ready")
        return text_page(f"not ready: {cause.name}: {cause.message}\n{cause.remedy}", status)

    def health(self, ask: Ask) -> Page:
        """The verdict with all fields of the health page."""
        verdict = self._health.verdict()
        status = 503 if verdict.word == "failing" else 200
        if ask.wants_text:
            return text_page(self._text(verdict), status)
        return json_page(self._document(verdict), status)

    def _document(self, verdict: Verdict) -> dict[str, object]:
        return {
            "verdict": verdict.word,
            "ready": verdict.unready is None,
            "state": self._health.phase.name.lower(),
            "causes": [_cause(cause) for cause in verdict.causes],
            "uptime_seconds": round(self._health.uptime_ms / 1000, 1),
            **self._health.facts(),
        }

    def _text(self, verdict: Verdict) -> str:
        lines = [f"Verdict: {verdict.word}", ""]
        for cause in verdict.causes:
            lines += [
                f"{cause.severity.name.lower()}: {cause.name}: {cause.message}",
                f"      {cause.remedy}",
                "",
            ]
        known = self._known().items()
        return "\n".join(
            lines + [f"{name.replace('_', ' ') + ':':18}{plain_text(value)}" for name, value in known]
        )

    def metrics(self, _: Ask) -> Page:
        """All metrics, in pieces."""
        return Page(self._metrics.render(), CONTENT_TYPE)

    def overview(self, _: Ask) -> Page:
        """A page for people: the verdict, and links."""
        verdict = self._health.verdict()
        return Page(overview(verdict, self._known(), DESCRIPTIONS).encode(), HTML)

    def _known(self) -> dict[str, object]:
        """State, uptime and all other fields, for people."""
        return {
            "state": self._health.phase.name.lower(),
            "uptime": f"{self._health.uptime_ms / 1000:.0f} s",
            **self._health.facts(),
        }


def _cause(cause: Condition) -> dict[str, str]:
    return {
        "name": cause.name,
        "severity": cause.severity.name.lower(),
        "message": cause.message,
        "remedy": cause.remedy,
    }
