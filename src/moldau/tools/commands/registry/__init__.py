"""`moldau registry`: a schema registry as a program."""
