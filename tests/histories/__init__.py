"""Histories of what clients did and saw, and the checker that judges them.

    history.py            the data: sends, transactions, polls, commits, faults
    lines.py              the same as lines of JSON, for clients in processes of their own
    checker.py            `check(history)`: pass, fail or unknown, with complaints and counts
    judge_*.py            one question each, pure functions of the history

Simulated clusters (tests/sim) and clusters of real processes (tests/torture) share it: neither knows the
other's clients, and the judges know no client at all.
"""
