"""`moldau quotas`."""
