"""Work on logs between appends: retention, flushes, removal, truncation."""
