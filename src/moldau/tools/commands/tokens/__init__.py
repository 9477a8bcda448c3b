"""`moldau tokens`: delegation tokens (KIP-48). requests.py is shared with kafka-delegation-tokens."""
