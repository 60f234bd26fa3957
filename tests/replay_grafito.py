"""Replays recorded cases of Grafito; see `tests.replay`."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tercet.conditions import LabelFilter, PropertyFilter, PropertyFilterGroup
from tercet.errors import TercetError
from tercet.grafito import Database, GrafitoError
from tercet.node import Node, nodes_of, relationships_of
from tercet.pictures import grafito as pictures
from tests.tally import Decided, Tally

SUBGRAPHS = ("semantic_subgraph", "text_subgraph", "hybrid_subgraph", "subgraph", "path_context")
LOOSE = 1e-6  # relative, of scores
LOOSE_FLOAT32 = 1e-5
RANDOM = ("louvain", "lpa", "label_propagation")


class Case:
    """One recorded case: records, vectors, calls."""

    def __init__(self, folder: Path) -> None:
        case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
        self.name, self.calls, self.texts = folder.name, case["calls"], case["query_texts"]
        self.ties_matter = "tie" in folder.name
        self.graph = json.loads((folder / "graph.json").read_text(encoding="utf-8"))
        self.vectors: dict[str, np.ndarray] = {}
        if (folder / "vectors.npz").exists():
            with np.load(folder / "vectors.npz", allow_pickle=False) as held:
                self.vectors = {name: held[name] for name in held.files}
        self.kept: dict[int, Node] = {}
        self.db = self.build()

    @property
    def tolerance(self) -> float:
        index = self.graph.get("vector_index") or {}
        return LOOSE_FLOAT32 if index.get("backend") == "faiss" else LOOSE

    def build(self) -> Database:
        nodes = {n["id"]: dict(n) for n in self.graph["nodes"]}
        edges = {r["id"]: dict(r) for r in self.graph["relationships"]}
        vectors, text_index, again = self._index(), list(self.graph.get("text_index", [])), []
        known = {("node", i): len(text_index) for i in nodes} | {("relationship", i): len(text_index) for i in edges}
        for step in self.graph.get("after", []):
            if step["op"] == "keep_node_object":
                n = nodes[step["id"]]
                self.kept[step["id"]] = Node(step["id"], tuple(sorted(n["labels"])), n["properties"], n.get("uri"))  # type: ignore[arg-type]
            elif step["op"] == "delete_node":
                del nodes[step["id"]]
                edges = {i: r for i, r in edges.items() if step["id"] not in (r["source"], r["target"])}
            elif step["op"] == "delete_relationship":
                del edges[step["id"]]
            elif step["op"] == "update_properties":
                nodes[step["id"]]["properties"] = {**nodes[step["id"]]["properties"], **step["properties"]}
                again = [i for i in again if i != step["id"]] + [step["id"]]
                known["node", step["id"]] = len(text_index)
            elif step["op"] == "upsert_again":
                given = vectors["default"]
                at = given["ids"].index(step["id"])
                order = [i for i in range(len(given["ids"])) if i != at] + [at]
                given["ids"], given["vectors"] = [given["ids"][i] for i in order], given["vectors"][order]
            elif step["op"] == "rebuild_text_index":
                again, known = [], dict.fromkeys(known, len(text_index))
            elif step["op"] == "create_text_index":
                text_index.append(step)
            else:
                raise ValueError(f"{self.name}: unknown step {step['op']}")
        return Database.from_records(
            nodes.values(), edges.values(), vectors=vectors, text_index=text_index, written_again=again,
            known=known, device="cpu", **self.graph.get("database", {}),
        )  # fmt: skip

    def _index(self) -> dict[str, dict[str, Any]]:
        about = self.graph.get("vector_index")
        if not about:
            return {}
        options = about.get("options", {})
        table = {t: self.vectors["query_vectors"][i] for i, t in enumerate(self.texts) if t is not None}
        return {
            about["name"]: {
                "ids": self.vectors["node_ids"].tolist(), "backend": about["backend"],
                "vectors": self.vectors["node_vectors"].reshape(len(self.vectors["node_ids"]), about["dim"]),
                "metric": options.get("metric", "cosine" if about["backend"] == "bruteforce" else "l2"),
                "default_k": options.get("default_k"),
                "embed": (lambda texts: [table[t] for t in texts]) if self.texts else None,
            }
        }  # fmt: skip

    def decode(self, value: Any) -> Any:
        """The Python object that a recorded argument stands for."""
        if isinstance(value, list):
            return [self.decode(v) for v in value]
        if not isinstance(value, dict):
            return value
        if "$vector" in value:
            return self.vectors["query_vectors"][value["$vector"]].tolist()
        if "$node" in value:
            graph = self.db.engine.graph
            kept = self.kept.get(value["$node"])
            return kept or replace(nodes_of(graph, graph.rows([value["$node"]]))[0], id=value["$node"])
        if "$relationship" in value:
            ids = self.db.engine.graph.edges.column("id").to_pylist()
            row = ids.index(str(value["$relationship"]))
            return replace(relationships_of(self.db.engine.graph, [row])[0], id=value["$relationship"])
        if "$tuple" in value:
            return tuple(self.decode(v) for v in value["$tuple"])
        if "$labels_any" in value:
            return LabelFilter.any(value["$labels_any"])
        if "$labels_all" in value:
            return LabelFilter.all(value["$labels_all"])
        if "$group" in value:
            return getattr(PropertyFilterGroup, f"{value['$group']}_")(*(self.decode(v) for v in value["of"]))
        if "$filter" in value:
            options = {"case_sensitive": value["case_sensitive"]} if "case_sensitive" in value else {}
            return getattr(PropertyFilter, value["$filter"])(*value["values"], **options)
        return {k: self.decode(v) for k, v in value.items()}

    def run(self, call: dict[str, Any]) -> dict[str, Any]:
        """What a recorded call gives here, in the recorded form."""
        name = call["call"]
        args = [self.decode(a) for a in call.get("args", [])]
        kwargs = {k: self.decode(v) for k, v in call.get("kwargs", {}).items()}
        if name in SUBGRAPHS:
            return subgraph_form(getattr(self.db, name)(*args, **kwargs))
        if name in ("semantic_search", "hybrid_search"):
            return {"hits": hits_form(getattr(self.db, name)(*args, **kwargs))}
        if name == "text_search":
            return {"hits": [{"kind": h["entity_type"], "id": h["entity"].id, "score": h["score"]}
                             for h in self.db.text_search(*args, **kwargs)]}  # fmt: skip
        if name == "match_nodes":
            return {"ids": sorted(n.id for n in self.db.match_nodes(*args, **kwargs))}
        first = call["from"]
        start = [self.decode(a) for a in first.get("args", [])]
        sub = getattr(self.db, first["call"])(*start, **self.decode(first.get("kwargs", {})))
        graph = sub.to_networkx(directed=call.get("directed", True))
        if name == "to_networkx":
            return {"class": type(graph).__name__, "nodes": [[n, d] for n, d in graph.nodes(data=True)],
                    "edges": [[u, v, k, d] for u, v, k, d in graph.edges(keys=True, data=True)]}  # fmt: skip
        if name == "centrality":
            return {"hits": hits_form(self.db.centrality(*args, graph=graph, **kwargs))}
        if name == "communities":
            found = self.db.communities(*args, graph=graph, **kwargs)
            return {"communities": [{"id": c.id, "size": c.size, "nodes": list(c.nodes), "terms": list(c.terms),
                                     "label": c.label} for c in found]}  # fmt: skip
        if name == "export_graph":
            return export_form(graph, args[0], kwargs)
        raise ValueError(f"{self.name}: unknown call {name}")


def hits_form(hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"id": h["node"].id, "score": h["score"]} for h in hits]


def subgraph_form(sub: Any) -> dict[str, Any]:
    return {
        "nodes": sub.node_ids(), "seeds": hits_form(sub.seeds),
        "scores": sorted([k, v] for k, v in sub.scores.items()), "hops": sorted([k, v] for k, v in sub.hops.items()),
        "relationships": [r.id for r in sub.relationships], "paths": [list(p) for p in sub.paths],
    }  # fmt: skip


def export_form(graph: Any, backend: str, options: dict[str, Any]) -> dict[str, Any]:
    """What the compatible outputs hold."""
    if backend == "pyvis":
        nodes, edges = pictures.pyvis(graph, **options)
        return {"nodes": nodes, "edges": edges}
    if backend == "cytoscape":
        return {"returns_path_given": True, "elements": pictures.elements(graph, **options)}
    if backend == "d3":
        return {"returns_path_given": True, "data": pictures.data(graph, **options)}
    return {"returns_path_given": True, "lines": pictures.lines(graph, backend, **options)}


def same(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k], tolerance) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) or isinstance(b, float):
        if a is None or b is None or isinstance(a, str) or isinstance(b, str):
            return a == b
        return (math.isnan(a) and math.isnan(b)) or abs(a - b) <= tolerance * max(abs(a), abs(b)) + 1e-12
    return bool(a == b)


def untied(form: dict[str, Any], ties: str, tolerance: float) -> dict[str, Any]:
    """Hits of equal score in the order of their ids."""
    hits = form.get(ties)
    if not isinstance(hits, list) or any("score" not in h or h["score"] is None for h in hits):
        return form
    out: list[dict[str, Any]] = []
    run: list[dict[str, Any]] = []
    for h in [*hits, None]:
        if run and (h is None or not same(float(h["score"]), float(run[0]["score"]), tolerance)):
            out += sorted(run, key=lambda x: x["id"])
            run = []
        if h is not None:
            run.append(h)
    return {**form, ties: out}


def check(case: Case, call: dict[str, Any]) -> None:
    """Run one call and compare.

    Raises:
        AssertionError: it differs.
    """
    want = call["expect"]
    if "error" in want:
        expect_error(lambda: case.run(call), want["error"])
        return
    got = case.run(call)
    if same(got, want, case.tolerance):
        return
    if not case.ties_matter and call["call"] in ("semantic_search", "text_search", "hybrid_search"):
        mine, theirs = (untied(f, "hits", case.tolerance) for f in (got, want))
        if same(mine, theirs, case.tolerance):
            return
    raise AssertionError(difference(got, want, case.tolerance))


def expect_error(run: Callable[[], Any], want: dict[str, Any]) -> None:
    try:
        got = run()
    except Exception as error:  # which class it is, is what is compared
        kinds = [{"InvalidFilter": "InvalidFilterError"}.get(c.__name__, c.__name__) for c in type(error).__mro__]
        assert want["type"] in kinds, f"{type(error).__name__} ({error}), expected {want['type']}"
        ours = isinstance(error, GrafitoError)
        assert ours == want["grafito_error"] or isinstance(error, TercetError), f"base class of {error!r}"
        return
    raise AssertionError(f"no error, expected {want}: {str(got)[:200]}")


def difference(got: dict[str, Any], want: dict[str, Any], tolerance: float) -> str:
    parts = [
        f"{k}: {json.dumps(got.get(k), default=str)[:300]}, expected {json.dumps(want.get(k))[:300]}"
        for k in want if not same(got.get(k), want[k], tolerance)
    ]  # fmt: skip
    return "; ".join(parts) or f"{sorted(got)}, expected {sorted(want)}"


def replay(folder: Path, tally: Tally) -> None:
    """Run all calls of one case."""
    case = Case(folder)
    for i, call in enumerate(case.calls):
        mark = " (accident)" if call.get("accident") else ""
        name = f"{case.name}: call {i} {call['call']}{json.dumps(call.get('args'))[:60]} {call.get('kwargs')}{mark}"
        try:
            check(case, call)
        except Decided as why:
            tally.decided.append(f"{name}: {why}")
        except Exception as error:  # a call that breaks is a failed call, and the others still count
            tally.failed.append(f"{name}: {type(error).__name__}: {error}")
        else:
            tally.passed += 1
