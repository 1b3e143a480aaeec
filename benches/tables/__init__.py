"""Real tables from packages that ship their data, the tools people use on them, and their scores."""
