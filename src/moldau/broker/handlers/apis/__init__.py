"""One file an API: it translates, delegates, and registers itself with the versions it serves."""
