"""`moldau serve`: its options, its help, and the broker as a program. Empty, so that a broker starts fast."""
