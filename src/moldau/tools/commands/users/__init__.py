"""`moldau users`: list, add, remove."""
