"""Images as they are given, how they become what a model wants, and which part of them it sees."""
