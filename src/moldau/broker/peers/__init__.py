"""Requests from this broker to others, on the event loop; `peers.py` is the interface."""
