"""The passage search on random small graphs: what holds whatever they look like."""

import numpy as np
import pytest

import tercet
from tercet.multihop import ranking
from tercet.multihop.settings import MODES

WORDS = ["ann", "bob", "lee", "paris", "rome", "sea", "king", "old", "of", "The", "B", "東京", "cats", "cat"]
D = 8


def text(rng, size):
    return " ".join(rng.choice(WORDS, size))


def random_engine(rng):
    """Passages with none to some rows of vectors, names that are empty, null or alike, loops and repeated facts."""
    passages, names = int(rng.integers(1, 12)), int(rng.integers(0, 15))
    ids = np.array([f"p{i}" for i in range(passages)] + [f"n{i}" for i in range(names)])
    order = rng.permutation(len(ids))
    nodes = {
        "id": ids[order].tolist(), "type": ["Passage" if i < passages else "Entity" for i in order],
        "name": [None if rng.random() < 0.1 else text(rng, rng.integers(0, 4)) for _ in order],
        "text": [text(rng, 8) if i < passages and rng.random() < 0.9 else None for i in order],
    }  # fmt: skip
    edges = int(rng.integers(0, 40))
    columns = {"source": ids[rng.integers(0, len(ids), edges)], "target": ids[rng.integers(0, len(ids), edges)],
               "relation": rng.choice(["r", "s"], edges)}  # fmt: skip
    told = [None if rng.random() < 0.7 else str(rng.choice(ids)) for _ in range(edges)]
    graph = tercet.Graph.from_tables(nodes, {k: v.tolist() for k, v in columns.items()} | {"passage": told})
    owner = ids[rng.integers(0, passages, passages + 3)].tolist()
    made = [tercet.Collection.build("c", rows(rng, len(owner)), owner, "node",
                                    dtype=str(rng.choice(["float32", "float16"])))]  # fmt: skip
    if names and rng.random() < 0.7:
        made.append(tercet.Collection.build("n", rows(rng, names), ids[passages:].tolist(), "node"))
    if rng.random() < 0.7:
        made.append(tercet.Collection.build("r", rows(rng, 2), ["r", "s"], "relation"))
    return tercet.Engine(graph, made, device="cpu"), ids


def rows(rng, size):
    return rng.normal(size=(size, D)).astype(np.float32)


def answer(hits):
    return hits.ids(), hits.scores.tolist(), [h["parts"] for h in hits]


@pytest.mark.parametrize("seed", range(25))
def test_what_always_holds(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    e, ids = random_engine(rng)
    texts, vectors = [text(rng, rng.integers(0, 7)) for _ in range(5)], rows(rng, 5)
    filters = [None if rng.random() < 0.5 else ids[np.unique(rng.integers(0, len(ids), 4))].tolist() for _ in texts]
    k = rng.integers(1, 15, 5).tolist()
    settings = {"candidates": int(rng.integers(1, 6)), "found": int(rng.integers(1, 4)),
                "title_weight": float(rng.choice([0, 10]))}  # fmt: skip
    for options in [*({"mode": m} for m in MODES), {"settings": settings}]:
        every = e.passage_search(texts, k, vectors=vectors, filter=filters, **options)
        assert np.isfinite(every.score).all()
        with monkeypatch.context() as patch:
            patch.setattr(ranking, "MOST", 2)
            tiled = e.passage_search(texts, k, vectors=vectors, filter=filters, **options)
        for i, hits in enumerate(every):
            one = e.passage_search([texts[i]], k[i], vectors=vectors[i : i + 1], filter=[filters[i]], **options)
            assert answer(one[0]) == answer(tiled[i]) == answer(hits)
            assert len(set(hits.ids())) == len(hits) <= k[i]
            assert set(hits.ids()) <= {x for x in filters[i] or ids if x.startswith("p")}
            assert hits.scores.tolist() == sorted(hits.scores.tolist(), reverse=True)
    dense = e.passage_search(vectors=vectors, k=k, mode="dense", filter=filters)
    near = e.semantic_search(vectors=vectors, k=k, collections=["c"], filter=filters)
    assert [h.ids() for h in dense] == [h.ids() for h in near]
    assert dense.score.tolist() == near.score.tolist()
