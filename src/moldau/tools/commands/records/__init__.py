"""`moldau produce` and `moldau consume`, and the `-f` templates that both use."""
