"""`moldau lag`: verdicts on consumer groups as a program."""
