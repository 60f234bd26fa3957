"""Retrieval quality on the question-answering sets: fitting the multi-hop search, and the tables of docs/quality.md."""
