"""`moldau streams`: run, list, describe, reset."""
