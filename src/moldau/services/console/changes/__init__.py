"""What changes something. Every change says what it will do before it does it: the same code makes the
preview and, asked again with the plan's own digest, carries out exactly that.

    change.py    a change: its fields, its plan, its deed, the right that it needs
    audit.py     a line for each that was made or refused
    topics.py  groups.py  ...    the changes
    undo.py      the offsets of groups before a reset, for a day
"""
