"""Recorded calls of Grafito on the networkx graph of a subgraph, for the measures of `tercet.analyse`."""

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

GOLDEN = Path(__file__).parents[3] / "shared" / "grafito" / "golden"


def recorded(case: str) -> list[Any]:
    """The calls of a case, or a skip where the recordings aren't there."""
    folder = GOLDEN / case
    if not folder.is_dir():
        return [pytest.param(None, None, marks=pytest.mark.skip("the recorded cases aren't here"))]
    graph = json.loads((folder / "graph.json").read_text())
    calls = json.loads((folder / "case.json").read_text())["calls"]
    return [pytest.param(graph, call, id=f"{i}-{'-'.join(call['args'])}") for i, call in enumerate(calls)]


def subgraph(graph: dict[str, Any], call: dict[str, Any]) -> nx.MultiDiGraph | nx.MultiGraph:
    """What the recorded call was made on: seeds, what lies within `expand` steps, and all edges among them."""
    seeds, expand = call["from"]["args"][0], call["from"].get("kwargs", {}).get("expand", 0)
    order, frontier = list(seeds), set(seeds)
    edges = sorted(graph["relationships"], key=lambda r: r["id"])
    for _ in range(expand):
        found = []
        for r in edges:
            found += [r["target"]] * (r["source"] in frontier) + [r["source"]] * (r["target"] in frontier)
        fresh = [n for n in dict.fromkeys(found) if n not in order]
        order, frontier = order + fresh, set(fresh)
    out = nx.MultiDiGraph() if call.get("directed", True) else nx.MultiGraph()
    properties = {node["id"]: node["properties"] for node in graph["nodes"]}
    out.add_nodes_from((n, {"properties": properties[n]}) for n in order)
    for r in edges:
        if r["source"] in out and r["target"] in out:
            out.add_edge(r["source"], r["target"], key=r["id"], properties=r["properties"])
    return out
