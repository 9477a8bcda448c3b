"""Reading by offset and by time."""
