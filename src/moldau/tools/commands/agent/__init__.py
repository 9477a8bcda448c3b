"""`moldau agent`: run, status, submit."""
