"""The explorer: choose an image, see its counterfactual, move the settings, make swaps by hand; in the browser."""
