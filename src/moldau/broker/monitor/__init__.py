"""Health (a verdict that names its cause) and metrics (plain counters, rendered when somebody scrapes)."""
