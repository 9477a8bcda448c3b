"""Fetch, and what readers ask about offsets."""
