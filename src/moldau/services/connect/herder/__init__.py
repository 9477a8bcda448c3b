"""Decides what connectors and tasks there are and how they shall be, from what the stores know.

interface.py   what the REST interface asks of a herder, and how it is refused
"""
