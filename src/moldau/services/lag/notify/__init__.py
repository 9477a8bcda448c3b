"""Tells somebody when a group is not well, and when it is again."""
