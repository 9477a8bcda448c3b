"""`moldau security`: certificates for TLS."""
