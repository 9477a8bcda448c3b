"""`moldau mirror`: topics that mirror another cluster's."""
