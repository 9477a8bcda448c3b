"""Runs connectors and tasks in this process.

interface.py   what the herder asks for, and what it is told
"""
