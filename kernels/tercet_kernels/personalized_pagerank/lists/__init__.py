"""The lists of where each node is entered from."""
