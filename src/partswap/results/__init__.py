"""What a search returns: counterfactuals and their words, as plain data."""
