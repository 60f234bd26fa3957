"""A small graph of passages with a toy encoder, whose right answers can be seen."""

import numpy as np

import tercet

WORDS = ("alpha", "beta", "gamma", "delta")


def toy(texts):
    """A vector counts the four words that it knows."""
    return np.array([[t.lower().count(w) for w in WORDS] for t in texts], np.float32) + np.float32(0.01)


def engine(encoder=toy, *, joined=False, **options):
    """Passages p:1 .. p:4 hold one word each; names n:alpha .. are linked in a row, each fact cited by a passage.

    With `joined`, names and passages share a collection.
    """
    texts = [f"The {w} passage." for w in WORDS]
    nodes = {
        "id": [*(f"p:{i}" for i in range(1, 5)), *(f"n:{w}" for w in WORDS)],
        "name": [None] * 4 + list(WORDS), "type": ["DocumentChunk"] * 4 + ["Entity"] * 4, "text": texts + [None] * 4,
    }  # fmt: skip
    facts = [("alpha", "beta", 1), ("beta", "gamma", 2), ("gamma", "delta", 3)]
    edges = {
        "source": [f"n:{s}" for s, _, _ in facts] + [f"p:{i}" for i in range(1, 5)],
        "target": [f"n:{t}" for _, t, _ in facts] + [f"n:{w}" for w in WORDS],
        "relation": ["leads to"] * 3 + ["mentions"] * 4,
        "passage": [f"p:{p}" for _, _, p in facts] + [f"p:{i}" for i in range(1, 5)],
    }
    graph = tercet.Graph.from_tables(nodes, edges)
    passages = tercet.Collection.build("text", toy(texts), nodes["id"][:4])
    names = tercet.Collection.build("name", toy(WORDS), nodes["id"][4:])
    relations = tercet.Collection.build("relation", toy(["leads to", "mentions"]), ["leads to", "mentions"], "relation")
    if joined:
        both = tercet.Collection.build("all", toy([*texts, *WORDS]), nodes["id"])
        return tercet.Engine(graph, [both, relations], encoder, **options)
    return tercet.Engine(graph, [passages, names, relations], encoder, **options)


QUERIES = {"q1": "where is alpha", "q2": "gamma", "q3": "beta and alpha", "q4": "delta, delta"}
QRELS = {"q1": ["1"], "q2": ["3"], "q3": ["1", "2"], "q4": ["4"]}
