"""`moldau tokens`: delegation tokens (KIP-48)."""
