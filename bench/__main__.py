"""`python -m bench`: brokers to measure against, the figures, and the table for docs/benchmarks.md."""

from bench.commands import main

if __name__ == "__main__":
    main()
