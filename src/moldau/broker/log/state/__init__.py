"""What a log knows of its batches: producers, leader epochs, transactions."""
