"""`moldau rest`: the REST proxy as a program."""
