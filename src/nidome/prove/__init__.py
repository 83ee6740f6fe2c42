"""Run records and what can be proven from them."""
