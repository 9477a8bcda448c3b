"""`moldau demo`: flight data through a broker and two Spark flows, compared with pandas."""
