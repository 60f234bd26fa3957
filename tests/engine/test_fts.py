import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tercet import Graph
from tercet.errors import InvalidArgument, StoreError
from tercet.retrieve.fts import FtsHit, FtsIndex

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "grafito" / "golden"
CASES = sorted(GOLDEN.glob("text_*")) if GOLDEN.is_dir() else []


def as_text(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return json.dumps(value)
    return str(int(value) if isinstance(value, bool) else value)


def rows_of(graph: dict[str, Any]) -> tuple[list[str], list[int], list[str], list[str]]:
    """Rows as Grafito makes them: one a (node, label) pair and one a relationship; a changed node comes last."""
    configured = {(t["entity"], t["label_or_type"]): t["properties"] for t in graph["text_index"]}
    nodes = {node["id"]: node for node in graph["nodes"]}
    for step in graph["after"]:
        assert step["op"] == "update_properties"
        node = nodes.pop(step["id"])
        nodes[step["id"]] = {**node, "properties": {**node["properties"], **step["properties"]}}
    rows = [("node", node["id"], label, node["properties"]) for node in nodes.values() for label in node["labels"]]
    rows += [("relationship", r["id"], r["type"], r["properties"]) for r in graph["relationships"]]

    def content(kind: str, properties: dict[str, Any]) -> str:
        names = configured.get((kind, None), [])
        return " ".join(as_text(properties[name]) for name in names if properties.get(name) is not None)

    return (
        [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows],
        [content(row[0], row[3]) for row in rows],
    )  # fmt: skip


def ask(index: FtsIndex, call: dict[str, Any]) -> list[FtsHit]:
    """The hits of a recorded call: of `text_search`, or the seeds of `text_subgraph`."""
    kwargs = call["kwargs"]
    k = kwargs.get("k") if kwargs.get("k") is not None else 10
    if call["call"] == "text_search":
        return index.search(call["args"][0], k, kwargs.get("labels"))
    labels = kwargs.get("search_labels")
    if isinstance(labels, dict):
        labels = tuple(labels["$tuple"])
    hits = index.search_words(call["args"][0], k, labels)
    return list({hit.entity: hit for hit in reversed(hits) if hit.kind == "node"}.values())[::-1]


@pytest.mark.skipif(not CASES, reason="the recorded cases aren't beside the repository")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_finds_what_grafito_found(case: Path) -> None:
    index = FtsIndex.build(*rows_of(json.loads((case / "graph.json").read_text("utf-8"))))
    compared = 0
    for call in json.loads((case / "case.json").read_text("utf-8"))["calls"]:
        expect = call["expect"]
        if "error" in expect:
            if expect["error"]["type"] == "DatabaseError" and not {"direction", "expand", "max_nodes"} & set(
                call["kwargs"]
            ):
                with pytest.raises(InvalidArgument):
                    ask(index, call)
            continue
        got = ask(index, call)
        want = expect["hits"] if call["call"] == "text_search" else expect["seeds"]
        assert [hit.entity for hit in got] == [hit["id"] for hit in want], call
        assert [hit.kind for hit in got] == [hit.get("kind", "node") for hit in want], call
        assert [hit.score for hit in got] == pytest.approx([hit["score"] for hit in want], rel=1e-6, abs=1e-15)
        compared += 1
    assert compared or case.name == "text_errors"


def small(path: Path | None = None) -> FtsIndex:
    """Three nodes, the second with two labels, and a relationship whose type says "river", too."""
    return FtsIndex.build(
        ["node", "node", "node", "node", "relationship"],
        [7, 8, 8, 9, 7],
        ["Lake", "River", "Place", "Lake", "river_of"],
        ["deep water", "long river", "long river", "river mouth, it's wide", ""],
        path,
    )


def test_rows_of_one_entity_are_listed_each_and_relationships_too() -> None:
    found = small().search("river", 10)
    assert sorted((hit.kind, hit.entity) for hit in found) == [
        ("node", 8), ("node", 8), ("node", 9), ("relationship", 7),
    ]  # fmt: skip
    assert [hit.score for hit in found] == sorted(hit.score for hit in found)
    assert all(hit.score < 0 for hit in found)


def test_labels_restrict_before_the_cut_and_are_spelled_as_stored() -> None:
    index = small()
    assert [hit.entity for hit in index.search("river", 1, ["Lake"])] == [9]
    assert [hit.entity for hit in index.search("river", 9, ["River", "Place"])] == [8, 8]
    assert index.search("river", 9, ["lake"]) == []
    assert len(index.search("river", 9, [])) == 4


def test_equal_scores_keep_the_order_of_rows_with_nodes_first() -> None:
    index = FtsIndex.build(
        ["relationship", "node", "node"], [1, 5, 2], ["same", "same", "same"], ["word", "word", "word"]
    )
    # the kind is a word of the row as well, but each row has one, so lengths agree
    assert [(hit.kind, hit.entity) for hit in index.search("word", 9)] == [
        ("node", 5), ("node", 2), ("relationship", 1),
    ]  # fmt: skip
    assert [hit.entity for hit in index.search("word", 1)] == [5]


@pytest.mark.parametrize(
    "query", ["", "  ", "deep AND", '"deep', "*", "water?", "^", "no_column : x", "\ud800", None, 5]
)
def test_refuses_what_fts5_refuses(query: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^query: "):
        small().search(query, 5)


@pytest.mark.parametrize("k", [0, -1, True, 1.5, None])
def test_refuses_k_below_one(k: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^k: expected at least 1"):
        small().search("river", k)
    with pytest.raises(InvalidArgument, match=r"^k: expected at least 1"):
        small().search_words("river", k)


@pytest.mark.parametrize("labels", [("Lake",), "Lake", [""], [None]])
def test_refuses_other_labels(labels: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^labels: expected a list"):
        small().search("river", 5, labels)


def test_the_retry_asks_for_all_words_as_they_are() -> None:
    assert FtsIndex.literal("it's a covid-19 (wave") == '"it" "s" "a" "covid" "19" "wave"'
    assert FtsIndex.literal("?! *") is None
    index = small()
    assert [hit.entity for hit in index.search_words("it's wide?", 5)] == [9]
    assert index.search_words("river AND", 5) == []  # "and" must occur as a word
    assert [hit.entity for hit in index.search_words("deep NOT river", 5)] == [7]  # accepted, so no retry
    with pytest.raises(InvalidArgument, match="FTS5 rejects"):
        index.search_words("?", 5)


def test_a_node_table_is_searched_by_its_columns() -> None:
    graph = Graph.from_tables(
        {"id": ["b", "a", "c"], "name": ["Danube", "river", None], "text": ["a river", None, "mouth"]},
        {"source": [], "relation": [], "target": []},
    )
    index = FtsIndex.of_graph(graph)
    rows = {graph.ids[hit.entity].as_py() for hit in index.search("river", 9)}
    assert rows == {"a", "b"}
    assert [hit[:2] for hit in index.search("name : river", 9)] == [("node", graph.row("a"))]
    assert index.search("node", 9) == []  # no column of kinds here
    with pytest.raises(InvalidArgument, match="has no labels"):
        index.search("river", 9, ["Lake"])
    with pytest.raises(InvalidArgument, match="no column 'title'"):
        FtsIndex.of_graph(graph, ["title"])
    with pytest.raises(InvalidArgument, match="expected distinct columns"):
        FtsIndex.of_graph(graph, [])


def test_a_file_gives_the_same_answers_when_opened_again(tmp_path: Path) -> None:
    file = tmp_path / "words.db"
    made = small(file)
    want = made.search("river OR water", 9)
    made.close()
    assert FtsIndex.open(file).search("river OR water", 9) == want
    with pytest.raises(InvalidArgument, match=r"^path: .* exists"):
        small(file)
    with pytest.raises(StoreError, match="no such file"):
        FtsIndex.open(tmp_path / "other.db")
    (tmp_path / "text.db").write_text("not a table")
    with pytest.raises(StoreError, match="not a full-text index"):
        FtsIndex.open(tmp_path / "text.db")


def test_refuses_rows_that_do_not_fit() -> None:
    with pytest.raises(InvalidArgument, match=r"^rows: expected columns of one length"):
        FtsIndex.build(["node"], [1, 2], ["A"], ["x"])
    with pytest.raises(InvalidArgument, match=r"^kind row 1: "):
        FtsIndex.build(["node", "edge"], [1, 2], ["A", "B"], ["x", "y"])


def test_threads_share_an_index() -> None:
    index = small()
    want = index.search("river", 9)
    wrong: list[object] = []

    def work() -> None:
        for _ in range(50):
            got = index.search("river", 9)
            if got != want:
                wrong.append(got)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
