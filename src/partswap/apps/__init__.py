"""Pages people look at."""
