"""Care for data sets: get archives, check files, draw contact sheets."""
