"""Command lines, their help and their tables."""
