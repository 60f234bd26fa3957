"""Grafito's rules: recorded cases, its arguments, its batches."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tercet.grafito import Database, DatabaseError, InvalidFilterError
from tests.replay import cases
from tests.replay_grafito import Case, replay, subgraph_form
from tests.tally import Tally

GOLDEN = Path(__file__).parents[1] / "golden" / "grafito"
CASES = cases(GOLDEN)


def test_all_cases_are_here() -> None:
    assert len(CASES) == 70
    assert sum(len(json.loads((c / "case.json").read_text(encoding="utf-8"))["calls"]) for c in CASES) == 798


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_recorded(case: Path) -> None:
    tally = Tally()
    replay(case, tally)
    assert tally.failed == []
    assert tally.passed == len(json.loads((case / "case.json").read_text(encoding="utf-8"))["calls"])


def test_the_replay_notices_a_difference(monkeypatch) -> None:
    monkeypatch.setattr("tests.replay_grafito.subgraph_form", lambda sub: {**subgraph_form(sub), "paths": [[1]]})
    tally = Tally()
    replay(GOLDEN / "sub_directions", tally)
    assert tally.passed == 0
    assert tally.failed


BATCHED = ("k", "expand", "direction", "rel_types", "exclude_rel_types", "labels", "max_nodes")


@pytest.mark.parametrize(
    "name", ["sem_basic_batch", "sem_directions", "sem_max_nodes", "sem_unembedded_nodes", "sem_l2_metric"]
)
def test_a_batch_of_the_engine_answers_as_the_single_calls_do(name: str) -> None:
    """All recorded calls with the same settings, as one batch of the engine in mode "grafito"."""
    case = Case(GOLDEN / name)
    groups: dict[str, list[dict]] = {}
    for call in case.calls:
        plain = call["call"] == "semantic_subgraph" and set(call["kwargs"]) <= set(BATCHED)
        if plain and "error" not in call["expect"] and isinstance(call["args"][0], dict):
            groups.setdefault(json.dumps(call["kwargs"]), []).append(call)
    assert groups
    for kwargs, calls in groups.items():
        vectors = [case.decode(call["args"][0]) for call in calls]
        options = {"k": 10, **json.loads(kwargs)}
        options["k"] = options["k"] or 10
        got = case.db.engine.semantic_subgraph(vectors=vectors, **options)
        for sub, call in zip(got, calls, strict=True):
            want = call["expect"]
            assert [int(i) for i in sub.node_ids()] == want["nodes"]
            assert sorted([int(i), h] for i, h in sub.hops.items()) == want["hops"]
            assert [int(r.id) for r in sub.relationships] == want["relationships"]
            for hit, seed in zip(sub.seeds, want["seeds"], strict=True):
                assert int(hit["node"].id) == seed["id"]
                assert math.isclose(hit["score"], seed["score"], rel_tol=1e-6)


def test_routes_of_a_batch_are_those_of_the_single_calls() -> None:
    case = Case(GOLDEN / "path_random_batch")
    compared = 0
    for call in case.calls:
        assert set(call["kwargs"]) <= {
            "k",
            "max_hops",
            "max_paths",
            "direction",
            "rel_types",
            "exclude_rel_types",
            "expand",
        }
        embed = case.db.indexes["default"].embed
        waypoints = [embed([w])[0] if isinstance(w, str) else w for w in case.decode(call["args"][0])]
        got = case.db.engine.path_context([waypoints, waypoints[::-1], waypoints], **call["kwargs"])
        for sub in (got[0], got[2]):
            assert [[int(i) for i in p] for p in sub.paths] == call["expect"]["paths"]
            assert [int(i) for i in sub.node_ids()] == call["expect"]["nodes"]
        compared += 1
    assert compared > 3


def small() -> Database:
    nodes = [{"id": i, "labels": ["A"], "properties": {"t": f"word{i}"}, "uri": None} for i in (1, 2, 3)]
    edges = [{"id": 1, "source": 1, "target": 2, "type": "R", "properties": {}, "uri": None}]
    vectors = {"default": {"ids": [1, 2, 3], "vectors": np.eye(3), "backend": "bruteforce", "metric": "cosine"}}
    text = [{"entity": "node", "label_or_type": None, "properties": ["t"]}]
    return Database.from_records(nodes, edges, vectors=vectors, text_index=text, device="cpu")


def test_ids_are_numbers_and_objects_say_what_they_are() -> None:
    sub = small().semantic_subgraph([1.0, 0.0, 0.0], k=1)
    assert (sub.node_ids(), sub.seed_ids(), len(sub), bool(sub)) == ([1, 2], [1], 2, True)
    assert (sub.nodes[0].labels, sub.nodes[0].properties) == (("A",), {"t": "word1"})
    assert (sub.relationships[0].source_id, sub.relationships[0].target_id) == (1, 2)
    assert small().text_subgraph("word2").node_ids() == [2, 1]
    assert [h["node"].id for h in small().centrality("degree", graph=sub.to_networkx())] == [1, 2]


def test_refusals_have_grafitos_names() -> None:
    db = small()
    for call in (
        lambda: db.subgraph([1], direction="up"), lambda: db.semantic_search("text"), lambda: db.text_search(" "),
        lambda: db.path_context(["a"]), lambda: db.hybrid_search("x", k=0),
        lambda: db.semantic_search([1, 0, 0], index="no"),
    ):  # fmt: skip
        with pytest.raises(DatabaseError):
            call()
    with pytest.raises(InvalidFilterError):
        db.match_nodes(properties={"bad key": 1})
    with pytest.raises(ValueError, match="dimension 3"):
        db.semantic_search([1.0, 0.0])
