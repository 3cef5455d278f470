"""What every package shares and that knows nothing of counterfactuals."""
