"""Embedding on import: each text once, kept on disk, resumed after a stop."""

from tercet.embedding.cache import EmbeddingCache
from tercet.embedding.embed import Pace, embed_texts
from tercet.embedding.identity import Identity, identity

__all__ = ["EmbeddingCache", "Identity", "Pace", "embed_texts", "identity"]
