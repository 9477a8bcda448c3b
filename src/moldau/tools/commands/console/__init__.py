"""`moldau console`: the web console as a program."""
