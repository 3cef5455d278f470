"""The command line: `main` puts the commands together, each is a thin file of its own."""
