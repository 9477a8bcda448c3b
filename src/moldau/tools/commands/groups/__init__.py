"""`moldau groups`: list, describe, members, state, delete, delete-offsets, reset-offsets."""
