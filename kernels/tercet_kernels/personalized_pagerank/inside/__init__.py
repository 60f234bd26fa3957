"""Personalized PageRank when each query walks among nodes of its own."""
