"""Where and how a network is cut into features and head."""
