"""Replays recorded cases of Cognee; see `tests.replay`."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tercet import Collection, Engine, Graph
from tercet.cognee import EDGE_COLLECTION, NODE_PROPERTIES, brute_force_triplet_search, edge_type_id, graph_from_records
from tercet.errors import InvalidArgument, InvalidData
from tercet.recall import Recall
from tests.given import GivenIndex
from tests.tally import Decided, Tally

TOLERANCE = 1e-12


@dataclass
class Case:
    """One recorded case: records, vectors' distances, runs."""

    name: str
    runs: list[dict[str, Any]]
    kind: str | None
    default_collections: list[str] | None
    nodes: list[tuple[str, dict[str, Any]]]
    edges: list[tuple[str, str, str, dict[str, Any]]]
    sets: dict[str, list[list[str]]]
    ids: dict[str, list[str]]
    distances: dict[str, torch.Tensor]
    queries: int

    @staticmethod
    def read(folder: Path) -> "Case":
        case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
        graph = plain(json.loads((folder / "graph.json").read_text(encoding="utf-8")))
        with np.load(folder / "vectors.npz", allow_pickle=False) as held:
            vectors = {name: held[name] for name in held.files}
        names = list(graph["collections"])
        return Case(
            name=folder.name, runs=plain(case["runs"]), kind=case.get("kind"),
            default_collections=case.get("default_collections"),
            nodes=[tuple(n) for n in graph["nodes"]], edges=[tuple(e) for e in graph["edges"]],
            sets={n: graph["collections"][n]["belongs_to_set"] for n in names},
            ids={n: [str(i) for i in vectors[f"{n}__ids"].tolist()] for n in names},
            distances={n: torch.from_numpy(np.atleast_2d(vectors[f"{n}__distances"])).float() for n in names},
            queries=len(vectors["queries"]) if "queries" in vectors else 1,
        )  # fmt: skip


def plain(value: Any) -> Any:
    """JSON with its `$float` marks resolved."""
    if isinstance(value, dict):
        return float(value["$float"]) if set(value) == {"$float"} else {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list) else value


def build(case: Case, params: dict[str, Any], nodes: list[Any], edges: list[Any]) -> Engine:
    """An engine in cognee mode over the records and the recorded distances."""
    properties = params.get("properties_to_project")
    graph = graph_from_records(
        nodes, edges, properties=NODE_PROPERTIES if properties is None else properties,
        edge_importance="memory_fragment" in params,
    )  # fmt: skip
    return Engine(graph, [collection(case, name, graph) for name in case.ids], mode="cognee", device="cpu")


def collection(case: Case, name: str, graph: Graph) -> Collection:
    import pyarrow as pa

    relation = name == EDGE_COLLECTION
    owner = case.ids[name]
    if relation:
        text_of = {edge_type_id(key): key for key in graph.keys.to_pylist()}
        owner = [text_of.get(i, f"unknown:{i}") for i in owner]
    flat = [s for row in case.sets[name] for s in row]
    return Collection(
        name, "relation" if relation else "node", GivenIndex(case.distances[name]),  # type: ignore[arg-type]
        pa.array(owner, pa.large_string()), np.zeros(0, np.int64), None, pa.array(sorted(set(flat)), pa.large_string()),
        np.cumsum([0, *map(len, case.sets[name])]), pa.array(flat, pa.large_string()),
    )  # fmt: skip


def call(engine: Engine, case: Case, params: dict[str, Any]) -> Recall:
    """The recorded call."""
    options = {
        name: params[name] for name in (
            "top_k", "collections", "wide_search_top_k", "triplet_distance_penalty", "feedback_influence", "node_type",
            "node_name", "node_name_filter_operator", "neighborhood_depth", "neighborhood_seed_top_k",
            "personal_weights",
        ) if name in params
    }  # fmt: skip
    if case.default_collections is not None:
        options.setdefault("collections", case.default_collections)
    if "memory_fragment" in params:
        options["triplet_distance_penalty"] = params["memory_fragment"].get("penalty", 6.5)
        options["projection"] = "full"
        for name in ("neighborhood_depth", "node_type"):
            options.pop(name, None)
    elif params.get("id_filter_supported") is False and "neighborhood_depth" not in options:
        options["projection"] = "full"
    if "raw_query" in params or "raw_query_batch" in params or not ("query" in params or "query_batch" in params):
        return brute_force_triplet_search(engine, params.get("raw_query"), params.get("raw_query_batch"), **options)
    units = torch.eye(max(case.queries, 1))
    if "query" in params:
        return brute_force_triplet_search(engine, "a query", vectors=units[params["query"]], **options)
    batch = params["query_batch"]
    return brute_force_triplet_search(engine, None, ["a query"] * len(batch), vectors=units[batch], **options)


def check_run(case: Case, run: dict[str, Any]) -> None:
    """Compare one run.

    Raises:
        AssertionError: it differs. Decided: it differs as docs/differences.md says.
    """
    try:
        engine = build(case, run["params"], case.nodes, case.edges)
    except InvalidData as error:
        check_refused(case, run, error)
        raise Decided(f"a record that can't be read is refused ({error})") from error
    check_answer(case, run, engine)


def check_refused(case: Case, run: dict[str, Any], error: InvalidData) -> None:
    """Without the records that we refuse and Cognee stumbles over, the ranking must be the recorded one.

    Cognee swallows the error and ranks what it had read until then; a read that is limited to some nodes may not have
    met the broken record at all.
    """
    node = next((i for i, n in enumerate(case.nodes) if not isinstance(n[1], dict)), None)
    edge = next((i for i, e in enumerate(case.edges) if not isinstance(e[3], dict)), None)
    assert node is not None or edge is not None, f"import refused: {error}"
    whole = [n for n in case.nodes if isinstance(n[1], dict)], [e for e in case.edges if isinstance(e[3], dict)]
    read = (case.nodes[:node], []) if node is not None else (case.nodes, case.edges[:edge])
    try:
        check_answer(case, run, build(case, run["params"], *read))
    except AssertionError:
        check_answer(case, run, build(case, run["params"], *whole))


def check_answer(case: Case, run: dict[str, Any], engine: Engine) -> None:
    """Compare the answer of an engine with the recorded one."""
    params, expected = run["params"], run["expected"]
    if "error" in expected:
        check_error(engine, case, params, expected["error"])
        return
    got, wanted = guarded_call(engine, case, params, expected["results"]), expected["results"]
    if not (len(wanted) == 0 and all(len(r.edges) == 0 for r in got)):
        assert len(got) == len(wanted), f"{len(got)} results, expected {len(wanted)}"
    # a real store reads node sets and neighbourhoods in the order of a hash set: ties may come in any order
    loose = expected.get("stub_path_comparison") == "identical_up_to_ties"
    every = call(engine, case, {**params, "top_k": 10**6}) if loose else None
    for i, want in enumerate(wanted):
        check_result(got[i], want, None if every is None else every[i])


def guarded_call(engine: Engine, case: Case, params: dict[str, Any], wanted: list[Any]) -> Recall:
    """The recorded call; what Cognee swallows into an empty answer may be an error of ours."""
    try:
        return call(engine, case, params)
    except InvalidArgument as error:
        if params.get("triplet_distance_penalty", 0) is None:
            raise Decided(f"a penalty of None is refused at once ({error})") from error
        if (
            (depth := params.get("neighborhood_depth")) is not None
            and depth < 1
            and not any(w["triplets"] for w in wanted)
        ):
            raise Decided(f"a depth below 1 is refused, not answered with nothing ({error})") from error
        raise


def check_error(engine: Engine, case: Case, params: dict[str, Any], error: dict[str, str]) -> None:
    try:
        call(engine, case, params)
    except InvalidArgument as raised:
        if params.get("triplet_distance_penalty", 0) is None:
            raise Decided(f"a penalty of None is refused at once ({raised})") from raised
        assert str(raised) == error["message"], f"message {str(raised)!r}, expected {error['message']!r}"
        return
    raise AssertionError(f"no error, expected {error}")


def check_result(got: Any, want: dict[str, Any], every: Any = None) -> None:
    """Compare one query's answer; with `every`, the whole ranking, edges of equal score may be in another order."""
    triplets = [[t.source, t.relation, t.target] for t in got.triplets]
    wanted = [[t[0], t[1] or "", t[2]] for t in want["triplets"]]
    scores, distances, text = got.scores.tolist(), got.distances.astype(np.float64), got.text
    if every is not None:
        order = same_order(every, wanted, want["scores"])
        graph = every.recall.groups[0].plan.graph
        triplets = [triplets_of(every)[i] for i in order]
        scores, distances = every.scores[order].tolist(), every.distances[order].astype(np.float64)
        text = every.recall._render(graph, every.edges[order][None])[0][0].as_py()
    assert len(triplets) == len(wanted), f"{len(triplets)} triplets, expected {len(wanted)}"
    for i, (a, b) in enumerate(zip(scores, want["scores"], strict=True)):
        same = a == b or math.isclose(a, b, rel_tol=0, abs_tol=TOLERANCE) or (math.isnan(a) and math.isnan(b))
        assert same, f"score {i}: {a!r}, expected {b!r}"
    for i, (t, w) in enumerate(zip(triplets, wanted, strict=True)):
        assert t == w, f"triplet {i}: {t}, expected {w}"
    for i, row in enumerate(want["distances"]):
        for mine, theirs in zip(distances[i], row, strict=True):
            assert math.isinf(mine) or mine == theirs, f"distance in triplet {i}: {mine}, expected {theirs}"
    assert text == want["context"], f"context differs: {first_difference(text, want['context'])}"


def triplets_of(result: Any) -> list[list[str]]:
    return [[t.source, t.relation, t.target] for t in result.triplets]


def same_order(every: Any, wanted: list[list[str]], scores: list[float]) -> list[int]:
    """Places in our whole ranking of the wanted triplets, each one used once and only where the scores agree."""
    mine, mine_scores = triplets_of(every), every.scores.tolist()
    free = dict.fromkeys(range(len(mine)))
    order = []
    for triplet, score in zip(wanted, scores, strict=True):
        place = next((i for i in free if mine[i] == triplet and abs(mine_scores[i] - score) <= TOLERANCE), None)
        assert place is not None, f"{triplet} with score {score!r} isn't in the ranking"
        del free[place]
        order.append(place)
    for i in free:  # nothing better was left out
        assert not scores or mine_scores[i] >= scores[-1] - TOLERANCE, f"{mine[i]} is missing"
    return order


def first_difference(a: str, b: str) -> str:
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return f"at {at}: {a[max(0, at - 30) : at + 40]!r}, expected {b[max(0, at - 30) : at + 40]!r}"


def replay(folder: Path, tally: Tally) -> None:
    """Run all runs of one case."""
    case = Case.read(folder)
    if case.kind == "retrievers":
        tally.skipped += len(case.runs)
        return
    for run in case.runs:
        name = f"{case.name}: {run['name']}"
        try:
            check_run(case, run)
        except Decided as why:
            tally.decided.append(f"{name}: {why}")
        except Exception as error:  # a run that breaks is a failed run, and the others still count
            tally.failed.append(f"{name}: {type(error).__name__}: {error}")
        else:
            tally.passed += 1
