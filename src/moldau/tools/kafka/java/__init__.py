"""What the tools read as Java reads it: patterns, times, settings, properties files."""
