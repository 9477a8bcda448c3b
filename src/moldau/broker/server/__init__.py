"""The network side: listener, connection (bytes to frames to answers), dispatch (header, handler table)."""
