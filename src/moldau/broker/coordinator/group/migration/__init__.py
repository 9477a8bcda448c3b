"""Groups that change their protocol in use, and classic members of consumer groups meanwhile (KIP-848)."""
