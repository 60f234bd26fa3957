"""Graphs for round trips through files, and what has to be the same afterwards."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tercet.graph import Graph
from tercet.node import nodes_of, relationships_of

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "importers"
needs_files = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared files of other programs aren't there")

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
XML_TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff", include_characters="\t\n\r"),
    max_size=6,
)
# The first graph compiles kernels, so that neither it nor the check on slow examples has a time.
round_trips = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)  # fmt: skip
REALS = st.floats(allow_nan=False)
WEIGHTS = st.floats(0, 1)


def facts(graph):
    """Everything a reader of the graph can see, by canonical rows."""
    nodes, edges = np.arange(graph.num_nodes), np.arange(graph.num_edges)
    bounds = graph.set_indptr
    names = graph.set_names.to_pylist()
    return {
        "nodes": [(n.id, n.labels, n.properties, n.uri) for n in nodes_of(graph, nodes)],
        "edges": [
            (e.id, e.source_id, e.target_id, e.type, e.properties, e.uri) for e in relationships_of(graph, edges)
        ],
        "sets": [sorted(names[i] for i in graph.set_member[bounds[n] : bounds[n + 1]]) for n in nodes],
        "weights": [x.tolist() for x in (graph.importance, graph.feedback, graph.edge_importance, graph.edge_feedback)],
    }


def graph_of(imported):
    return Graph.from_tables(imported.nodes, imported.edges)


def values(text):
    """JSON-like values of every kind."""
    whole = st.integers(-(2**63), 2**63 - 1)
    scalars = st.one_of(st.booleans(), whole, st.integers(2**64, 2**70), REALS, text)
    return st.one_of(
        scalars, st.lists(whole, max_size=2), st.lists(text, max_size=3), st.lists(scalars, max_size=2),
        st.dictionaries(text, scalars, max_size=2),
    )  # fmt: skip


@st.composite
def graphs(draw, text=TEXT, relations=None, ids=None):
    """A graph whose rows have everything some of the time."""
    ids = draw(st.lists(text if ids is None else ids, min_size=1, max_size=4, unique=True))
    some = lambda one: draw(st.lists(st.none() | one, min_size=len(ids), max_size=len(ids)))  # noqa: E731
    nodes = {
        "id": ids, **{name: some(text) for name in ("name", "type", "text", "description")},
        "importance_weight": some(WEIGHTS), "feedback_weight": some(WEIGHTS), "uri": some(text),
        "labels": some(st.lists(text.filter(bool), max_size=3)),
        "belongs_to_set": some(st.lists(text.filter(bool), max_size=2, unique=True)),
        "whole": some(st.integers(-(2**63), 2**63 - 1)), "real": some(REALS), "flag": some(st.booleans()),
        "words": some(st.lists(text, max_size=3)), "numbers": some(st.lists(REALS, max_size=2)),
        "properties": documents(draw, text, len(ids)),
    }  # fmt: skip
    count = draw(st.integers(0, 5))
    many = lambda one: draw(st.lists(one, min_size=count, max_size=count))  # noqa: E731
    own = draw(st.lists(text, min_size=count, max_size=count, unique=True))
    edges = {
        "source": many(st.sampled_from(ids)), "target": many(st.sampled_from(ids)),
        "relation": many(st.none() | text if relations is None else relations),
        "edge_text": many(st.none() | text), "importance_weight": many(WEIGHTS), "feedback_weight": many(WEIGHTS),
        "id": own if draw(st.booleans()) else [None] * count, "weight": many(st.none() | REALS), "uri": many(text),
        "since": many(st.none() | st.integers(0, 9)), "status": many(st.none() | text),
        "superseded": many(st.booleans()), "properties": documents(draw, text, count),
    }  # fmt: skip
    return Graph.from_tables(nodes, edges)


def documents(draw, text, count):
    keys = st.one_of(text, st.sampled_from(["name", "id", "labels", "weight", "type", "title", "fact", "relation"]))
    made = draw(st.lists(st.dictionaries(keys, values(text), max_size=2), min_size=count, max_size=count))
    return [json.dumps(document) for document in made]
