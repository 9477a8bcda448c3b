"""`moldau schemas`: list, show, register, check, diff, delete.

command.py     the commands and their options
requests.py    one request to a registry, with errors that say what to do
files.py       a schema from a file: its language, its references
differences.py what keeps a schema from being registered, and how two texts differ, for people
"""
