"""Context texts of a batch against a plain renderer, and against texts recorded from the package they come from."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.context import first_triplets, fit_tokens, node_columns, render_batch, status_columns
from tercet.errors import InvalidArgument
from tercet.titles import reference_title
from tercet.tokens import count_tokens

ROOT = Path(__file__).parents[2]
PLACES = (ROOT / "tests/golden/cognee", ROOT / "../shared/cognee/golden")
GOLDEN = next((place for place in PLACES if place.is_dir()), None)
CASES = sorted(path.parent.name for path in GOLDEN.glob("*/case.json")) if GOLDEN else []

WORDS = ["", "a", "Ada", "knows", "None", "two words", " ", "数据 x", "line\nbreak", "İ, the the Σ.", "x__y"]
words = st.none() | st.sampled_from(WORDS)


class Example(NamedTuple):
    """A random graph with a ranking of its edges for every query, as plain lists."""

    nodes: list[dict[str, str | None]]
    edges: list[dict[str, Any]]
    rankings: list[list[tuple[int, bool]]]  # edge row, shown reversed


def strings(values: list[str | None]) -> pa.Array:
    return pa.array(values, pa.large_string())


def plain_node(node: dict[str, str | None], missing: str, has_name: bool, has_description: bool) -> tuple[str, str]:
    if node["text"]:
        title, content = reference_title(node["text"]), node["text"]
    elif missing == "fallback":
        title = node["name"] or node["id"] or ""
        content = node["description"] or title
    else:
        title = str(node["name"]) if has_name else "Unnamed Node"
        content = str(node["description"]) if has_description else title
    return title, f"Node: {title}\n__node_content_start__\n{content}\n__node_content_end__\n"


def plain_context(example: Example, ranking: list[tuple[int, bool]], missing: str = "fallback") -> str:
    if not ranking:
        return ""
    blocks: dict[int, str] = {}
    lines: list[tuple[bool, str]] = []
    for row, is_reversed in ranking:
        edge = example.edges[row]
        ends = [edge["target"], edge["source"]] if is_reversed else [edge["source"], edge["target"]]
        titles = []
        for end in ends:
            title, block = plain_node(example.nodes[end], missing, True, True)
            blocks.setdefault(end, block)
            titles.append(title)
        label = edge["relation"] or edge["relation_name"] or edge["edge_text"]
        line = f"{titles[0]} --[{label}]--> {titles[1]}"
        if edge["edge_text"] and edge["edge_text"] != label:
            line += f"  ({edge['edge_text']})"
        if edge["status"]:
            line += f" {edge['status']}"
        lines.append((edge["superseded"], line))
    lines.sort(key=lambda pair: pair[0])
    return "Nodes:\n" + "\n".join(blocks.values()) + "\n\nConnections:\n" + "\n".join(line for _, line in lines)


@st.composite
def examples(draw: st.DrawFn) -> Example:
    num_nodes = draw(st.integers(1, 6))
    nodes = [
        {"id": f"id{i}", "name": draw(words), "description": draw(words), "text": draw(words)} for i in range(num_nodes)
    ]
    ends = st.integers(0, num_nodes - 1)
    edge = st.fixed_dictionaries(
        {"source": ends, "target": ends, "relation": words, "relation_name": words, "edge_text": words}
        | {"status": st.sampled_from([None, "", "[current]", "[superseded]"]), "superseded": st.booleans()}
    )
    edges = draw(st.lists(edge, min_size=1, max_size=8))
    ranked = st.lists(st.tuples(st.integers(0, len(edges) - 1), st.booleans()), max_size=7)
    return Example(nodes, edges, draw(st.lists(ranked, max_size=5)))


def arguments(example: Example, missing: Any = "fallback") -> dict[str, Any]:
    nodes, edges = example.nodes, example.edges
    columns = [strings([node[key] for node in nodes]) for key in ("id", "name", "description", "text")]
    title, block = node_columns(*columns, missing=missing)
    ranked = [pair for ranking in example.rankings for pair in ranking]
    rows = np.array([row for row, _ in ranked], dtype=np.int32)
    column = {
        key: strings([edge[key] for edge in edges]) for key in ("relation", "relation_name", "edge_text", "status")
    }
    return {
        "title": title,
        "block": block,
        "relation_label": column["relation"].dictionary_encode(),
        "relation_name": column["relation_name"],
        "edge_text": column["edge_text"],
        "status": column["status"],
        "superseded": pa.array([edge["superseded"] for edge in edges]),
        "source": np.array([edge["source"] for edge in edges], dtype=np.int32)[rows],
        "target": np.array([edge["target"] for edge in edges], dtype=np.int32)[rows],
        "edge": rows,
        "indptr": np.cumsum([0, *map(len, example.rankings)], dtype=np.int64),
        "reversed_": np.array([flag for _, flag in ranked], dtype=bool),
    }


@settings(max_examples=120, deadline=None)
@given(examples(), st.sampled_from(["fallback", "none"]))
def test_equals_the_plain_renderer(example: Example, missing: str) -> None:
    got = render_batch(**arguments(example, missing))
    assert got.type == pa.large_string()
    got.validate(full=True)
    assert got.to_pylist() == [plain_context(example, ranking, missing) for ranking in example.rankings]


@settings(max_examples=50, deadline=None)
@given(examples())
def test_a_query_alone_is_the_query_in_a_batch(example: Example) -> None:
    alone = [render_batch(**arguments(example._replace(rankings=[ranking])))[0] for ranking in example.rankings]
    assert render_batch(**arguments(example)).to_pylist() == [text.as_py() for text in alone]


@pytest.mark.parametrize("missing", ["fallback", "none"])
@pytest.mark.parametrize("keys", [(True, True), (True, False), (False, True), (False, False)])
def test_node_columns(missing: Any, keys: tuple[bool, bool]) -> None:
    nodes = [
        {"id": f"id{len(name or '')}", "name": name, "description": description, "text": text}
        for name in (None, "", "Ada")
        for description in (None, "", "A mathematician.")
        for text in (None, "", " ", "Some text, some words.")
    ]
    columns = [strings([node[key] for node in nodes]) for key in ("id", "name", "description", "text")]
    chunked = [pa.chunked_array([column[:5], column[5:]]) for column in columns]
    for given_columns in (columns, chunked):
        title, block = node_columns(*given_columns, missing=missing, has_name=keys[0], has_description=keys[1])
        assert list(zip(title.to_pylist(), block.to_pylist(), strict=True)) == [
            plain_node(node, missing, *keys) for node in nodes
        ]


def test_node_columns_without_columns() -> None:
    ids = pa.array(["x", "y"])
    assert node_columns(ids, None, None, None, missing="fallback")[0].to_pylist() == ["x", "y"]
    assert node_columns(ids, None, None, None, missing="none")[0].to_pylist() == ["None", "None"]
    assert node_columns(ids[:0], None, None, None, missing="none", has_name=False)[1].to_pylist() == []
    with pytest.raises(InvalidArgument, match=r"name: expected 2 rows.*got 1"):
        node_columns(ids, ids[:1], None, None, missing="fallback")
    with pytest.raises(InvalidArgument, match="missing: expected"):
        node_columns(ids, None, None, None, missing="neither")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("marks", "text", "date", "label"),
    [
        ([{"status": "superseded"}], None, "2021-05-06T00:00:00", "[superseded; as of 2021-05-06]"),
        ([{"status": "current"}], None, None, "[current]"),
        ([{"status": "current"}], None, "2024-01-01", "[as of 2024-01-01]"),
        ([{"status": "superseded"}, {"status": "conflicting"}], None, "", "[conflicting]"),
        ([{"status": "superseded"}], '[{"status": "current"}]', 20240102345, "[superseded; as of 2024010234]"),
        (None, '[{"status": "superseded"}]', None, "[superseded]"),
        ([], '[{"status": "current"}]', None, None),
        ([{"status": "unknown"}, {"state": "current"}, 5], None, "2024", None),
        ([{"status": ["current"]}], None, None, None),
        ({"status": "current"}, None, None, None),
        (None, "not json", "2024", None),
        (None, '{"status": "current"}', None, None),
        (None, "[]", None, None),
        (None, 7, None, None),
        (None, None, "2024", None),
    ],
)
def test_status(marks: object, text: object, date: object, label: str | None) -> None:
    status, superseded = status_columns([None, marks], [None, text], [None, date])
    assert status.to_pylist() == [None, label]
    assert superseded.to_pylist() == [False, label is not None and "superseded" in label]


def test_status_of_absent_columns() -> None:
    status, superseded = status_columns(None, None, ["2024", None])
    assert (status.to_pylist(), superseded.to_pylist()) == ([None, None], [False, False])
    with pytest.raises(InvalidArgument, match=r"expected one length, got \[1, 2\]"):
        status_columns([None], None, [None, None])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indptr": np.array([0, 1])}, "indptr: expected ascending offsets from 0 to 2"),
        ({"indptr": np.array([0, 3, 2])}, "indptr: expected ascending"),
        ({"source": np.array([0])}, "source: expected 2 entries"),
        ({"target": np.array([0, 9])}, r"target: expected rows in \[0, 2\), got 0 to 9"),
        ({"edge": np.array([-1, 0])}, r"edge: expected rows in \[0, 1\), got -1 to 0"),
        ({"block": strings(["one"])}, "block: expected 2 rows"),
    ],
)
def test_arguments_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    edge = {"source": 0, "target": 1, "relation": "r", "relation_name": None, "edge_text": None}
    nodes = [{"id": name, "name": name, "description": None, "text": None} for name in "ab"]
    example = Example(nodes, [edge | {"status": None, "superseded": False}], [[(0, False), (0, True)]])
    assert render_batch(**arguments(example))[0].as_py().endswith("a --[r]--> b\nb --[r]--> a")
    with pytest.raises(InvalidArgument, match=message):
        render_batch(**arguments(example) | change)


def tokens_by_hand(text: str) -> int:
    """Counts characters one by one; for the characters of `WORDS` and of the frame."""
    count, inside = 0, False
    for char in text:
        single = char in "数据"
        count += single or (not char.isalnum() and not char.isspace()) or (char.isalnum() and not inside)
        inside = char.isalnum() and not single
    return count


@given(st.lists(st.none() | st.text(st.sampled_from("aB9 _-.\n\t\x1f数据é\u00a0\u3000"), max_size=12), max_size=6))
def test_count_tokens(values: list[str | None]) -> None:
    assert count_tokens(strings(values)).tolist() == [tokens_by_hand(value or "") for value in values]
    assert count_tokens(strings(["", *values])[1:]).tolist() == [tokens_by_hand(value or "") for value in values]


def test_count_tokens_of_other_scripts() -> None:
    values = ["カタカナ", "ひら", "한국", "Ärzte und Ωmega2", "½ ²x", "a\x85b\x0bc", "…—", "日本go語"]
    assert count_tokens(pa.chunked_array([values])).tolist() == [4, 2, 2, 3, 2, 3, 2, 4]
    assert count_tokens(strings([])).tolist() == []


def longest_prefix(example: Example, ranking: list[tuple[int, bool]], count: Any, max_tokens: int) -> int:
    fits = [count(plain_context(example, ranking[:n])) <= max_tokens for n in range(1, len(ranking) + 1)]
    return fits.index(False) if False in fits else len(fits)


@settings(max_examples=100, deadline=None)
@given(examples(), st.integers(0, 250))
def test_fit_keeps_the_longest_prefix(example: Example, max_tokens: int) -> None:
    kept = fit_tokens(**arguments(example), max_tokens=max_tokens)
    expected = [longest_prefix(example, ranking, tokens_by_hand, max_tokens) for ranking in example.rankings]
    assert kept.dtype == np.int64
    assert kept.tolist() == expected


# None adds up over pieces: marks of start and end, rounding up, sums of parts far below and far above the whole.
COUNTERS = [lambda n: n + 300, lambda n: -(-n // 7) + 2, lambda n: n * n // 200, lambda n: math.isqrt(400 * n)]


@settings(max_examples=120, deadline=None)
@given(examples(), st.integers(0, 900), st.sampled_from(COUNTERS))
def test_fit_with_a_counter_of_the_callers(example: Example, max_tokens: int, counter: Callable[[int], int]) -> None:
    def count(text: str) -> int:
        return counter(len(text))

    kept = fit_tokens(**arguments(example), max_tokens=max_tokens, counter=lambda texts: list(map(count, texts)))
    assert kept.tolist() == [longest_prefix(example, ranking, count, max_tokens) for ranking in example.rankings]


@settings(max_examples=50, deadline=None)
@given(examples(), st.data())
def test_first_triplets_cut_like_the_ranking(example: Example, data: st.DataObject) -> None:
    kept = [data.draw(st.integers(0, len(ranking))) for ranking in example.rankings]
    given_arguments = arguments(example)
    rows, indptr = first_triplets(given_arguments["indptr"], np.array(kept, dtype=np.int64))
    cut = {key: given_arguments[key][rows] for key in ("source", "target", "edge", "reversed_")} | {"indptr": indptr}
    shorter = [ranking[:size] for ranking, size in zip(example.rankings, kept, strict=True)]
    assert render_batch(**given_arguments | cut).to_pylist() == [plain_context(example, part) for part in shorter]


@pytest.mark.parametrize("max_tokens", [-1, 2.5, True])
def test_budget_must_be_a_count(max_tokens: Any) -> None:
    with pytest.raises(InvalidArgument, match="max_tokens: expected an integer of at least 0"):
        fit_tokens(**arguments(Example([], [], [])), max_tokens=max_tokens)


def test_counter_must_count_every_text() -> None:
    with pytest.raises(InvalidArgument, match="counter: expected 2 integers"):
        fit_tokens(**arguments(Example([], [], [])), max_tokens=5, counter=lambda texts: [1])


def recorded_graph(case: str, projected: list[str] | None) -> tuple[dict[str, Any], list[Any], dict[str, int]]:
    """The columns of a recorded graph, its edges with both ends known, and the row of every node id."""
    assert GOLDEN is not None
    graph = json.loads((GOLDEN / case / "graph.json").read_text())
    nodes: dict[str, dict[str, Any]] = {}
    for node_id, properties in graph["nodes"]:
        if not properties.get("is_internal"):
            nodes.setdefault(node_id, properties)
    edges = [edge for edge in graph["edges"] if edge[0] in nodes and edge[1] in nodes]

    def of_nodes(key: str) -> pa.Array | None:
        values = [node.get(key) for node in nodes.values()]
        shown = strings([None if value is None else str(value) for value in values])
        return shown if projected is None or key in projected else None

    def of_edges(key: str) -> list[Any]:
        return [(edge[3] or {}).get(key) for edge in edges]

    name, description, text = map(of_nodes, ("name", "description", "text"))
    has = {"has_name": name is not None, "has_description": description is not None}
    title, block = node_columns(strings(list(nodes)), name, description, text, missing="none", **has)
    status, superseded = status_columns(*map(of_edges, ("conflict_marks", "conflict_marks_json", "effective_date")))
    columns = {"title": title, "block": block, "status": status, "superseded": superseded}
    columns["relation_label"] = strings([edge[2] for edge in edges])
    columns |= {"relation_name": strings(of_edges("relationship_name")), "edge_text": strings(of_edges("edge_text"))}
    return columns, edges, {node_id: row for row, node_id in enumerate(nodes)}


def recorded_ranking(result: dict[str, Any], edges: list[Any], num_edges: int) -> list[tuple[int, bool]] | None:
    """The edge row of each recorded triplet and whether it is shown reversed; None where the record doesn't tell."""
    wanted = [tuple(triplet) for triplet in result["triplets"]]
    known = [(edge[0], edge[2], edge[1]) for edge in edges]
    positions = result.get("fragment_positions", [])
    if num_edges == len(edges) and [known[place] for place in positions] == wanted:
        return [(place, False) for place in positions]
    turned = [(target, relation, source) for source, relation, target in known]
    if any(known.count(triplet) + turned.count(triplet) * (triplet not in known) != 1 for triplet in wanted):
        return None
    return [(known.index(t), False) if t in known else (turned.index(t), True) for t in wanted]


@pytest.mark.skipif(not CASES, reason="the recorded cases are not in this checkout")
@pytest.mark.parametrize("case", CASES)
def test_recorded_contexts(case: str) -> None:
    assert GOLDEN is not None
    record = json.loads((GOLDEN / case / "case.json").read_text())
    if record.get("kind") == "retrievers":
        pytest.skip("other texts than that of ranked triplets")
    by_projection: dict[str, list[tuple[dict[str, Any], int]]] = {}
    for run in record["runs"]:
        size = run["expected"].get("fragment", {}).get("edges", -1)
        results = [(result, size) for result in run["expected"].get("results", [])]
        by_projection.setdefault(json.dumps(run["params"].get("properties_to_project")), []).extend(results)
    for projected, results in by_projection.items():
        columns, edges, row = recorded_graph(case, json.loads(projected))
        told = [(result, recorded_ranking(result, edges, size)) for result, size in results]
        rankings = [(result, ranking) for result, ranking in told if ranking is not None]
        ranked = [pair for _, ranking in rankings for pair in ranking]
        got = render_batch(
            **columns,
            source=np.array([row[edges[place][0]] for place, _ in ranked], dtype=np.int64),
            target=np.array([row[edges[place][1]] for place, _ in ranked], dtype=np.int64),
            edge=np.array([place for place, _ in ranked], dtype=np.int64),
            indptr=np.cumsum([0, *(len(ranking) for _, ranking in rankings)], dtype=np.int64),
            reversed_=np.array([flag for _, flag in ranked], dtype=bool),
        )
        assert got.to_pylist() == [result["context"] for result, _ in rankings]
        assert len(rankings) >= len(results) / 2
