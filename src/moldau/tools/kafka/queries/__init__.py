"""What the tools ask a cluster."""
