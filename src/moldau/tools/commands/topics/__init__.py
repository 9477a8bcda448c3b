"""`moldau topics`: list, create, describe, alter, delete, trim."""
