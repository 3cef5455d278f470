"""What one asks of many explanations: a demo, a comparison, sanity, the paper's tables."""
