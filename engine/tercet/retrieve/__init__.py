"""Retrieval by words and by several halves at once: tokens, BM25, full-text queries and the fusion of ranked lists."""
