"""Retrieval of passages over several hops: names in the question, walks, paths of facts, and a second look."""
