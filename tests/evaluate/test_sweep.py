"""Sweeps: the grid, its TOML, and one search that stands for many."""

import numpy as np
import pytest
import torch

pytest.importorskip("ir_measures")
pytest.importorskip("scipy")

import tercet
from tercet.errors import InvalidArgument
from tercet.evaluate import Queries, grid
from tercet.evaluate.config import read_config
from tercet.evaluate.reuse import Kept, KeptIndex, sharing
from tercet.index.exact import ExactIndex
from tests.evaluate.small import QRELS, QUERIES, engine

FAST = {"prefix": "p:", "k": 3, "resamples": 100}


def test_a_grid_has_a_mode_a_point():
    made = grid({"recall": {"wide_search_top_k": [50, 200], "projection": ["full", None], "top_k": 20}})
    assert list(made) == [
        "recall[wide_search_top_k=50,projection=full]", "recall[wide_search_top_k=50,projection=None]",
        "recall[wide_search_top_k=200,projection=full]", "recall[wide_search_top_k=200,projection=None]",
    ]  # fmt: skip
    assert made["recall[wide_search_top_k=200,projection=None]"] == {
        "verb": "recall", "wide_search_top_k": 200, "projection": None, "top_k": 20
    }  # fmt: skip


def test_nested_tables_and_lists_in_lists():
    made = grid({"m": {"verb": "passage_search", "settings": {"damping": [0.3, 0.7], "first": {"dense": [1.0, 2.0]}},
                       "filter_labels": [["A", "B"]]}})  # fmt: skip
    assert len(made) == 4
    assert made["m[settings.damping=0.7,settings.first.dense=1.0]"] == {
        "verb": "passage_search", "settings": {"damping": 0.7, "first": {"dense": 1.0}}, "filter_labels": ["A", "B"]
    }  # fmt: skip
    assert list(grid({"recall": {"top_k": [3]}})) == ["recall"]
    named = grid({"recall": {"filter_labels": [["a b"], ["c/d", "e"]]}})
    assert all(" " not in n and "/" not in n for n in named)


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({"recall": {"top_k": []}}, r"expected distinct values for top_k, got \[\]"),
        ({"recall": {"top_k": [1, 1]}}, r"expected distinct values for top_k"),
        ({"recall": {"top_k": list(range(1, 50)), "wide_search_top_k": list(range(1, 50))}}, r"2,401 points"),
        ({"recall": 3}, r"expected arguments, got 3"),
    ],
)
def test_wrong_sweeps_are_refused(sweep, message):
    with pytest.raises(InvalidArgument, match=message):
        grid(sweep)


def test_sweeps_and_modes_of_a_file(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(
        '[modes.mh]\nverb = "passage_search"\nmode = "multihop"\n'
        '[modes.all]\nverb = "recall"\nwide_search_top_k = "none"\n'
        '[sweep.recall]\nwide_search_top_k = [1, "none"]\n[sweep.walks]\nverb = "passage_search"\n'
        "[sweep.walks.settings]\ndamping = [0.3, 0.5]\n"
    )
    made = read_config(file)["settings"]
    assert list(made) == ["mh", "all", "recall[wide_search_top_k=1]", "recall[wide_search_top_k=None]",
                          "walks[settings.damping=0.3]", "walks[settings.damping=0.5]"]  # fmt: skip
    assert made["all"]["wide_search_top_k"] is None
    got = tercet.evaluate(engine(), QUERIES, QRELS, made, **FAST)
    assert not got.did_not_run
    direct = engine().passage_search(list(QUERIES.values()), 3, mode="multihop")
    assert got.modes["mh"].run.to_arrow()["id"].to_pylist() == [i.removeprefix("p:") for h in direct for i in h.ids()]
    assert got.evaluations["mh"].means["R@5"] == 1.0
    file.write_text("[sweep.recall]\ntop = [1, 2]")
    with pytest.raises(InvalidArgument, match="recall has no top; it has"):
        read_config(file)
    file.write_text("[modes.recall]\n[sweep.recall]\ntop_k = [2]")
    with pytest.raises(InvalidArgument, match="'recall' is both a mode and a point of a sweep"):
        read_config(file)


def clustered(seed=0, nodes=400, width=24):
    """Vectors with ties: every fourth is a copy of another one."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(nodes, width)).astype(np.float32)
    vectors[::4] = vectors[1::4]
    ids = [f"{i:04}" for i in range(nodes)]
    source, target = rng.integers(0, nodes, (2, 4 * nodes))
    relation = [f"r{i % 7}" for i in range(4 * nodes)]
    graph = tercet.Graph.from_tables(
        {"id": ids, "type": ["DocumentChunk"] * nodes, "text": ids},
        {"source": [ids[i] for i in source], "target": [ids[i] for i in target], "relation": relation},
    )
    relations = rng.normal(size=(7, width)).astype(np.float32)
    made = tercet.Engine(graph, [
        tercet.Collection.build("text", vectors, ids),
        tercet.Collection.build("relation", relations, [f"r{i}" for i in range(7)], "relation"),
    ])  # fmt: skip
    asked = rng.normal(size=(30, width)).astype(np.float32)
    queries = Queries.of({f"q{i}": "text" for i in range(30)}).with_vectors(asked)
    return made, queries, {f"q{i}": [ids[i]] for i in range(30)}


def test_a_shared_search_gives_the_same_bits():
    made, queries, qrels = clustered()
    modes = grid({"recall": {"wide_search_top_k": [3, 17, 60, None], "projection": ["induced", "incident", "full"],
                             "feedback_influence": [0.0, 0.5], "triplet_distance_penalty": [2.5, 6.5]}})  # fmt: skip
    both = [tercet.evaluate(made, queries, qrels, modes, k=10, resamples=20, partition=7, reuse=reuse, baselines=())
            for reuse in (False, True)]  # fmt: skip
    for name in modes:
        a, b = (r.modes[name].run for r in both)
        assert np.array_equal(a.document, b.document), name
        assert np.array_equal(a.score.view(np.int64), b.score.view(np.int64)), name
        assert np.array_equal(a.indptr, b.indptr), name
        for detail, values in both[0].modes[name].details.items():
            np.testing.assert_array_equal(values, both[1].modes[name].details[detail])
    assert all(m.charged == 0 for m in both[0].modes.values())
    assert sum(m.charged != 0 for m in both[1].modes.values()) > len(modes) // 2
    assert any("shared a search" in note for note in both[1].notes)
    assert not any("shared a search" in note for note in both[0].notes)


def test_searches_are_looked_up_and_others_are_made(monkeypatch):
    made, queries, _ = clustered()
    calls = []
    plain = ExactIndex.search

    def counting(self, asked, k, *more):
        if type(self) is ExactIndex:
            calls.append((len(asked), k))
        return plain(self, asked, k, *more)

    monkeypatch.setattr(ExactIndex, "search", counting)
    kept = Kept(50)
    view = sharing(made, kept)
    index = view.collections[0].index
    assert isinstance(index, KeptIndex)
    assert view.planner.bound[0].collection is view.collections[0]
    asked = torch.nn.functional.normalize(torch.from_numpy(queries.vectors))
    index.search(asked, 10)
    assert calls == [(30, 10)]  # not active: as if it weren't there
    kept.active = True
    calls.clear()
    for k in (10, 50, 10, 60):
        got = index.search(asked, k)
        for mine, theirs in zip(got, plain(index.base, asked, k), strict=True):
            assert torch.equal(mine, theirs)
    # searched at 50 and timed at 10; found again at 50, timed there; found at 10; searched at 60
    assert calls == [(30, 50), (30, 10), (30, 50), (30, 60)]
    calls.clear()
    index.search(asked[:5], 10)  # other queries
    mask = torch.ones(1, 400, dtype=torch.bool)
    index.search(asked[:5], 10, mask, torch.zeros(5, dtype=torch.int32))  # a filter
    assert calls == [(5, 50), (5, 10)]
    kept.forget()
    calls.clear()
    index.search(asked[:5], 10)
    assert calls == [(5, 50)]
