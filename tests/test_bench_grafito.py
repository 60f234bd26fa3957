"""The suite beside Grafito: its workloads, what it calls, how answers are compared, and its tables."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import texts
from bench.baselines import grafito_search, igraph_pagerank, networkx_pagerank
from bench.baselines.peers import find_python
from bench.config import load
from bench.records import identity
from bench.subgraphs import Asker, asker, compare, told
from bench.suites import Bench, grafito
from bench.suites.grafito import calls, ranked
from bench.tables import tables_of
from bench.texts import LENGTH, STEPS, TextWorkload, with_texts
from bench.workloads import make
from tercet.errors import InvalidArgument

TINY = [
    "run.budget_s=0.3", "run.repeats=2", "run.warmup=1", "run.dimension=16", 'grafito.workloads=["power_law:150:600"]',
    "grafito.batches=[1, 6]", "grafito.queries=4", "grafito.semantic_k=5", "grafito.hybrid_k=4", "grafito.seeds=5",
    "grafito.budget_s=5",
]  # fmt: skip
VERBS = ["semantic_subgraph", "hybrid_subgraph", "path_context"]


@pytest.fixture(scope="module")
def given() -> TextWorkload:
    return with_texts(make(150, 600, 16, "power_law", relation_texts=12, num_queries=6), seed=3)


@pytest.fixture(scope="module")
def same_rules(given: TextWorkload) -> Asker:
    return asker(given, "grafito")


def own_calls() -> list[dict[str, Any]]:
    return calls(load([], TINY)["grafito"])


def test_texts_are_seeded_and_queries_ask_for_words_of_a_node(given: TextWorkload) -> None:
    again = with_texts(make(150, 600, 16, "power_law", relation_texts=12, num_queries=6), seed=3)
    assert again.node_texts.tolist() == given.node_texts.tolist()
    np.testing.assert_array_equal(again.waypoints, given.waypoints)
    assert {len(text.split()) for text in given.node_texts} == {LENGTH}
    assert len(set(given.query_texts.tolist())) == len(given.query_vectors)
    near = (given.query_vectors @ given.node_vectors.T).argmax(axis=1)
    for node, asked in zip(near, given.query_texts.tolist(), strict=True):
        assert set(asked.split()) <= set(given.node_texts[node].split())


def test_frequent_words_are_few() -> None:
    found = with_texts(make(2_000, 2_000, 4, num_queries=4)).node_texts
    _, counts = np.unique(" ".join(found).split(), return_counts=True)
    assert counts.max() > 1_000
    assert np.median(counts) < 20


def test_waypoints_are_near_nodes_that_a_short_route_joins(given: TextWorkload) -> None:
    np.testing.assert_allclose(np.linalg.norm(given.waypoints, axis=-1), 1, rtol=1e-5)
    near = np.einsum("qwd,nd->qwn", given.waypoints, given.node_vectors).argmax(axis=-1)
    beside = np.eye(given.num_nodes, dtype=bool)
    beside[given.source, given.target] = beside[given.target, given.source] = True
    reached = np.linalg.matrix_power(beside.astype(float), STEPS) > 0
    joined = [reached[a, b] for row in near for a, b in pairwise(row)]
    assert np.mean(joined) > 0.5  # of 16 dimensions: some vectors are nearer to another node


def test_a_text_workload_travels(given: TextWorkload, tmp_path: Path) -> None:
    given.save(tmp_path / "w.npz")
    back = TextWorkload.load(tmp_path / "w.npz")
    assert back.name == given.name
    assert back.node_columns == given.node_columns
    np.testing.assert_array_equal(back.waypoints, given.waypoints)


def test_texts_that_cannot_differ_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "LENGTH", 1)
    crowded = make(2, 1, 4, relation_texts=1, num_queries=5)
    with pytest.raises(InvalidArgument, match="different texts"):
        with_texts(crowded)
    with pytest.raises(InvalidArgument, match="num_waypoints"):
        with_texts(crowded, 1)


def test_a_graph_without_edges_has_waypoints() -> None:
    assert with_texts(make(3, 0, 4, num_queries=2)).waypoints.shape == (2, 3, 4)


def test_equal_answers_are_the_same_and_a_changed_part_is_not(same_rules: Asker) -> None:
    for call in own_calls():
        answers = [told(one, i) for i, one in enumerate(same_rules.ask(call, range(4)))]
        assert compare(same_rules, call, answers)["order"] == 4
        for part in ("seeds", "nodes", "relationships", "paths"):
            other = [{**answer, part: [*answer[part], [0, 1] if part == "paths" else -1]} for answer in answers]
            found = compare(same_rules, call, other)
            assert (found["same"], found[part]) == (0, 0)
            assert all(found[p] == 4 for p in ("seeds", "nodes", "relationships", "paths") if p != part)


def test_the_same_rules_or_its_own(given: TextWorkload, same_rules: Asker) -> None:
    native = asker(given, "native")
    for call in own_calls():
        answers = [told(one, i) for i, one in enumerate(same_rules.ask(call, range(6)))]
        found = compare(native, call, answers)
        assert found["paths"] == 6
        if call["call"] == "semantic_subgraph":
            assert found["same"] == 6


def test_pagerank_of_the_others(given: TextWorkload, same_rules: Asker) -> None:
    seeds = [np.array([0, 3, 8], np.int32), np.array([5], np.int32)]
    best = ranked(same_rules.engine, seeds)
    for module in (igraph_pagerank, networkx_pagerank):
        try:
            rank = module.ranker(given, grafito.DAMPING)
        except ImportError as error:
            pytest.skip(f"{error.name} isn't installed")
        scores = [rank(s) for s in seeds]
        assert grafito._close(best, scores)["same"] == 2
        assert grafito._close(best, scores[::-1])["same"] == 0


def cells_of(monkeypatch: pytest.MonkeyPatch, python: str | None = None) -> list[dict[str, Any]]:
    if python is not None:
        monkeypatch.setenv("TERCET_BENCH_GRAFITO_PYTHON", python)
    return [{"suite": "grafito", **c} for c in grafito.cells(Bench(load([], TINY), "grafito"))]


def test_the_suite_without_grafito(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = cells_of(monkeypatch, "/nowhere/python")
    assert cells[-1]["skipped"] == "TERCET_BENCH_GRAFITO_PYTHON names no file"
    mine = [c for c in cells if c["system"] == "tercet"]
    assert list(dict.fromkeys(c["settings"]["call"] for c in mine)) == [*VERBS, "pagerank"]
    assert {(c["settings"]["mode"], c["settings"]["form"]) for c in mine if "mode" in c["settings"]} == {
        ("native", "arrays"), ("native", "objects"), ("grafito", "arrays"),
    }  # fmt: skip
    assert len({identity(c) for c in cells}) == len(cells)
    for c in mine:
        assert c["median_s"] > 0
        assert c["qps"] == pytest.approx(c["settings"]["batch"] / c["median_s"])
    assert all({"expand", "relationships"} <= c["stages"].keys() for c in mine if "stages" in c)
    for c in [c for c in cells if c["system"] in grafito.RANKERS and "skipped" not in c]:
        assert c["agreement"]["same"] == c["agreement"]["queries"] > 0
    titles = [t.title for t in tables_of(cells)]
    assert "Beside Grafito" not in titles  # nothing to stand beside
    assert titles[-1] == "Not timed"


def test_the_suite_beside_grafito(monkeypatch: pytest.MonkeyPatch) -> None:
    python, reason = find_python("grafito", "grafitodb")
    if python is None:
        pytest.skip(reason)
    cells = cells_of(monkeypatch)
    theirs = [c for c in cells if c["system"] == "grafito"]
    assert [(c["settings"]["call"], c["settings"]["backend"]) for c in theirs] == [
        (call["call"], backend) for backend in ("faiss", "bruteforce") for call in own_calls()
    ]
    for c in theirs:
        assert c["agreement"]["same"] == c["agreement"]["queries"] == 4, c
    assert {"Beside Grafito", "Subgraphs by stage"} <= {t.title for t in tables_of(cells)}


def arrays_of(given: TextWorkload) -> dict[str, np.ndarray]:
    return {name: np.asarray(getattr(given, name)) for name in given.__dataclass_fields__}


def test_rows_in_plain_sql_are_those_of_single_calls(given: TextWorkload) -> None:
    library = pytest.importorskip("grafito", reason="grafitodb isn't installed in this environment")
    bulk, single = library.GrafitoDatabase(), library.GrafitoDatabase()
    grafito_search.insert_rows(bulk, arrays_of(given))
    single.create_text_index("node", grafito_search.LABEL, ["text"])
    ids = [single.create_node([grafito_search.LABEL], {"text": text}).id for text in given.node_texts.tolist()]
    for source, target, row in zip(given.source, given.target, given.relation, strict=True):
        single.create_relationship(ids[source], ids[target], f"RELATION_{row}")
    for read in (
        "SELECT id, properties, uri FROM nodes ORDER BY id",
        "SELECT node_id, label_id FROM node_labels ORDER BY node_id",
        "SELECT id, source_node_id, target_node_id, type, properties, uri FROM relationships ORDER BY id",
        "SELECT entity_type, entity_id, label_type, content FROM fts_index ORDER BY entity_type, entity_id",
        "SELECT name, sql FROM sqlite_master ORDER BY name",
        "SELECT count(*) FROM sqlite_master WHERE type = 'trigger'",
    ):
        assert [tuple(r) for r in bulk.conn.execute(read)] == [tuple(r) for r in single.conn.execute(read)], read


class Answer:
    """What the script reads of a subgraph."""

    def __init__(self, *ids: int) -> None:
        self.nodes = self.relationships = [type("Row", (), {"id": i})() for i in ids]
        self.seeds = [{"node": self.nodes[0]}]
        self.paths = [list(ids)]


def test_single_calls_end_with_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"now": 0.0}
    monkeypatch.setattr(grafito_search.time, "perf_counter", lambda: clock["now"])
    asked: list[int] = []

    def run(query: int) -> Answer:
        asked.append(query)
        clock["now"] += seconds
        return Answer(query + 1, query + 2)

    seconds = 0.25  # below a tenth: made once before
    quick = grafito_search.cell(run, [0, 1, 2], 10)
    assert asked == [0, 0, 1, 2]
    assert quick["samples_s"] == [0.25] * 3
    assert quick["answers"][2] == {"seeds": [2], "nodes": [2, 3], "relationships": [2, 3], "paths": [[2, 3]]}
    asked.clear()
    seconds = 4.0  # too long for a warm-up, and the third would pass the budget
    slow = grafito_search.cell(run, [0, 1, 2], 10)
    assert asked == [0, 1]
    assert slow["samples_s"] == [4.0, 4.0]


def test_calls_of_the_script() -> None:
    made: list[Any] = []

    class Database:
        def path_context(self, *given: Any, **named: Any) -> None:
            made.append((given, named))

    call = json.loads(json.dumps(own_calls()))[2]
    grafito_search.call_of(Database(), {}, "faiss", call)([[1.0], [2.0]])
    assert made == [(([[1.0], [2.0]],), {"index": "faiss", "k": 3, "max_hops": 3})]


def test_ratios_of_the_tables() -> None:
    def timed(system: str, median: float, **settings: Any) -> dict[str, Any]:
        named = {"name": "tiny"}
        agreement = {"same": 2, "queries": 3}
        return {
            "suite": "grafito", "system": system, "workload": named, "settings": settings, "median_s": median,
            "p20_s": median, "p80_s": median, "repeats": 1, "qps": settings["batch"] / median, "agreement": agreement,
        }  # fmt: skip

    asked = {"call": "path_context", "k": 3, "max_hops": 5}
    mine = [(1, "native", "arrays", 0.01), (1, "native", "objects", 0.02), (4, "native", "arrays", 0.02),
            (4, "grafito", "arrays", 0.04)]  # fmt: skip
    cells = [timed("tercet", t, **asked, batch=b, mode=m, form=f) for b, m, f, t in mine]
    cells.append(timed("grafito", 2.0, **asked, batch=1, backend="faiss"))
    ranks = {"call": "pagerank", "seeds": 30, "top_k": 20}
    cells += [timed("tercet", 0.1, **ranks, batch=2), timed("igraph", 0.2, **ranks, batch=1)]
    table, pagerank, stages = tables_of(cells)
    call = "path_context, k 3, max_hops 5"
    assert table.rows == [
        ["tiny", call, "1", "10", "20", "", "faiss", "2e+03", "200", "100", "", "2/3"],
        ["tiny", call, "4", "5", "", "10", "faiss", "2e+03", "400", "", "200", "2/3"],
    ]
    assert pagerank.rows == [["tiny", "2", "50", "igraph", "200", "4", "2/3"]]
    assert len(stages.rows) == 3
