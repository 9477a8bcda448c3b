"""Where commits, ends and members come from."""
