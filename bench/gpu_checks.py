"""Whether each op on a device equals its torch reference and its CPU form, on small seeded problems."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from bench.workloads import make
from tercet.index.exact import ExactIndex
from tercet_kernels._triton import has_triton
from tercet_kernels._types import EdgeRule
from tercet_kernels.cosine import norms, pair_distances
from tercet_kernels.cosine import reference as pairs
from tercet_kernels.edge_filter import edge_filter
from tercet_kernels.edge_filter import reference as edges
from tercet_kernels.expand import expand
from tercet_kernels.expand import reference as walks
from tercet_kernels.fragment import fragment
from tercet_kernels.fragment import reference as fragments
from tercet_kernels.fragment_topk import fragment_topk
from tercet_kernels.neighbors import neighbors
from tercet_kernels.neighbors import reference as levels
from tercet_kernels.triplet_topk import reference as triplets
from tercet_kernels.triplet_topk import triplet_topk

SIZES = (0, 1, 63, 64, 65, 1000)
RULES = ((0.0, False), (0.3, False), (0.3, True))  # influence, cliff

Problem = tuple[str, Callable[..., Any], Callable[..., Any], dict[str, Any]]  # name, op, reference, arguments


def check(problems: Iterator[Problem], device: torch.device) -> dict[str, Any]:
    """Run all problems; those whose results differ in any bit are named with the form that differs."""
    count, failed = 0, []
    for name, op, reference, case in problems:
        count += 1
        want = reference(**case)
        here = moved(case, device)
        forms = {"device": op(**here), "reference on device": reference(**here), "cpu": op(**case)}
        failed += [f"{name}: {form}" for form, got in forms.items() if differ(got, want)]
    return {"problems": count, "failed": failed}


def moved(value: Any, device: torch.device) -> Any:
    """Arguments with all their tensors on a device."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {name: moved(x, device) for name, x in value.items()}
    if isinstance(value, tuple):
        parts = [moved(x, device) for x in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def differ(got: Any, want: Any) -> bool:
    """Whether results differ in shape, dtype or a bit (NaN equals NaN)."""
    if isinstance(want, torch.Tensor):
        got, want = got.cpu(), want.cpu()
        same = (got.shape, got.dtype) == (want.shape, want.dtype)
        return not (same and bool(((got == want) | (got.isnan() & want.isnan())).all()))
    return any(differ(a, b) for a, b in zip(got, want, strict=True))


def fragment_problems() -> Iterator[Problem]:
    for size in SIZES:
        case = fragments.example(5, nodes=max(size, 1), edges=size, hits=max(size // 2, 1), seed=size)
        for either in (False, True):
            yield f"{size} edges, either={either}", fragment, fragments.fragment, {**case, "either": either}


def scored(size: int) -> Iterator[tuple[str, dict[str, Any]]]:
    case = triplets.example(5, nodes=max(size, 1), edges=size, hits=max(size // 2, 1), seed=size)
    for influence, cliff in RULES:
        rule = case["rule"]._replace(influence=influence, cliff=cliff)
        for k in (1, 10, 300):
            yield f"{size} edges, k={k}, influence={influence}, cliff={cliff}", {**case, "rule": rule, "k": k}


def triplet_problems() -> Iterator[Problem]:
    for size in SIZES:
        for name, case in scored(size):
            yield name, triplet_topk, triplets.triplet_topk, case


def fused_problems() -> Iterator[Problem]:
    def in_turn(topology: Any, hits: Any, *rest: Any, either: bool, **more: Any) -> Any:
        found = fragments.fragment(topology, hits, either)
        return triplets.triplet_topk(topology, found, hits, *rest, **more)

    for size in SIZES:
        for name, case in scored(size):
            parts = {key: value for key, value in case.items() if key != "fragment"}
            for either in (False, True):
                yield f"{name}, either={either}", fragment_topk, in_turn, {**parts, "either": either}


def captured_problems() -> Iterator[Problem]:
    """The pipeline as a CUDA graph; elsewhere, and for an empty graph, the pipeline itself."""

    def captured(topology: Any, hits: Any, missing: Any, relations: Any, rule: Any, k: int, either: bool) -> Any:
        edges = topology.source.shape[0]
        if not (hits.node.is_cuda and has_triton() and edges):
            return fragment_topk(topology, hits, missing, relations, rule, k, either=either)
        from tercet_kernels.fragment_topk.cuda import Captured, Shape

        queries = hits.indptr.shape[0] - 1
        shape = Shape(queries, hits.node.shape[0] + 3, relations.key.shape[0] + 3, queries * edges)
        call = Captured(topology, rule, k, shape, either=either)
        call(hits, missing.flip(0), relations)  # what a call leaves behind must not show in the next
        return call(hits, missing, relations)

    for name, op, reference, case in fused_problems():
        assert op is fragment_topk
        yield name, captured, reference, case


def expand_problems() -> Iterator[Problem]:
    for size in SIZES:
        case = walks.example(5, nodes=max(size, 1), edges=size, seeds=max(size // 20, 1), seed=size)
        chance = torch.rand(2, max(size, 1), generator=torch.Generator().manual_seed(size))
        case |= {"allowed": chance < 0.5, "allowed_row": torch.tensor([-1, 0, 1, 0, -1], dtype=torch.int32)}
        for depth in (0, 1, 2, 50):
            yield f"{size} edges, depth={depth}", expand, walks.expand, {**case, "depth": depth}


def neighbors_problems() -> Iterator[Problem]:
    """Directions with and without a limit in each order, all masks and none."""
    none = dict.fromkeys(("relation", "walkable", "allowed", "allowed_row"))
    for size in SIZES:
        case = levels.example(5, max(size, 1), 3 * size, max(size // 20, 1), size)
        rank = case.pop("rank")
        for order in ("edge", "rank", "node"):
            case |= {"order": order, "rank": rank if order == "rank" else None}
            for direction in ("both", "out", "in"):
                for limit in (None, torch.tensor([0, 1, 3, 10**6, -1])):
                    options = {**case, "direction": direction, "limit": limit}
                    name = f"{size} nodes, order={order}, {direction}, limited={limit is not None}"
                    yield name, neighbors, levels.neighbors, options
                    yield f"{name}, unmasked", neighbors, levels.neighbors, {**options, **none}


def edge_problems() -> Iterator[Problem]:
    for size in SIZES:
        case = edges.example(5, nodes=max(size // 3, 3), edges=size, seed=size)
        g = torch.Generator().manual_seed(size)
        weights = (torch.rand(size, generator=g, dtype=torch.float64).mul(4).round().div(4) for _ in range(2))
        rule = EdgeRule(*weights, 0.3, 6.1, False)
        matched = torch.rand(case["node_term"].shape, generator=g) < 0.2
        for k in (1, 10, 300):
            for options in ({}, {"rule": rule}, {"matched": matched}, {"rule": rule, "matched": matched}):
                name = f"{size} edges, k={k}, {' and '.join(options) or 'plain'}"
                yield name, edge_filter, edges.edge_filter, {**case, **options, "k": k}


def cosine_problems() -> Iterator[Problem]:
    for size in SIZES:
        for dimension in (1, 16, 384, 391):
            case = pairs.example(size, dimension, seed=size)
            yield f"{size} pairs, D={dimension}", pair_distances, pairs.pair_distances, case
            half = case["vectors"].half()
            scaled = {**case, "vectors": half, "scale": 1 / norms(half).clamp(min=1e-3)}
            yield f"{size} float16 pairs, D={dimension}", pair_distances, pairs.pair_distances, scaled


def search_problems() -> Iterator[Problem]:
    def search(vectors: torch.Tensor, scale: Any, hidden: Any, queries: torch.Tensor, k: int, masks: Any) -> Any:
        return ExactIndex(vectors, scale, hidden).search(queries, k, *masks)

    def sorted_out(vectors: torch.Tensor, scale: Any, hidden: Any, queries: torch.Tensor, k: int, masks: Any) -> Any:
        """Exact distances of all rows, by (distance, row)."""
        distance = ExactIndex(vectors, scale, hidden).dense(queries)
        if masks[0] is not None:
            shut = ~masks[0][masks[1].clamp(min=0).long()] & (masks[1] >= 0)[:, None]
            distance = distance.masked_fill(shut, torch.inf)
        distance, row = distance.sort(dim=1, stable=True)
        return row[:, :k].masked_fill(torch.isinf(distance[:, :k]), -1).int(), distance[:, :k]

    for size in SIZES[1:]:
        g = torch.Generator().manual_seed(size)
        unit = torch.nn.functional.normalize(torch.randn(size + 7, 24, generator=g), dim=1)
        vectors, queries = unit[:size].clone(), unit[size:].clone()
        hidden = torch.rand(size, generator=g) < 0.2
        allowed, row = torch.rand(2, size, generator=g) < 0.4, torch.tensor([-1, 0, 1, 1, -1, 0, 0], dtype=torch.int32)
        half = vectors.half()
        for k in (1, 10, 300):
            for name, rows, scale in (("float32", vectors, None), ("float16", half, 1 / norms(half))):
                for hide, masks in ((None, (None, None)), (hidden, (allowed, row))):
                    case = {"vectors": rows, "scale": scale, "hidden": hide, "queries": queries, "k": k, "masks": masks}
                    yield f"{size} {name} rows, k={k}, masked={hide is not None}", search, sorted_out, case


PROBLEMS: dict[str, Callable[[], Iterator[Problem]]] = {
    "cosine": cosine_problems, "search": search_problems, "fragment": fragment_problems,
    "triplet_topk": triplet_problems, "fragment_topk": fused_problems, "expand": expand_problems,
    "neighbors": neighbors_problems, "edge_filter": edge_problems, "captured": captured_problems,
}  # fmt: skip


def recall_check(device: torch.device, engines: Callable[[Any, str], Any]) -> dict[str, Any]:
    """Whole answers on the device against the CPU's: edges (up to equal scores), scores and statuses."""
    workload = make(400, 1600, 32, "power_law", relation_texts=20, num_queries=9)
    ours, theirs = engines(workload, str(device)), engines(workload, "cpu")
    vectors = torch.from_numpy(workload.query_vectors)
    options: Sequence[dict[str, Any]] = (
        {}, {"projection": "incident"}, {"wide_search_top_k": None}, {"wide_search_top_k": 20, "neighborhood_depth": 2},
        {"feedback_influence": 0.4, "wide_search_top_k": 7},
    )  # fmt: skip
    failed = []
    for asked in options:
        got, want = (e.recall(vectors=vectors, top_k=30, **asked) for e in (ours, theirs))
        scores, true = got.scores.cpu(), want.scores.cpu()
        if list(got.status) != list(want.status) or differ(scores, true):
            failed.append(f"{asked}: scores or statuses")
            continue
        moved_ = (got.edges.cpu() != want.edges.cpu()) & ~torch.isnan(true)
        tied = torch.zeros_like(moved_)
        tied[:, 1:] |= true[:, 1:] == true[:, :-1]
        tied[:, :-1] |= true[:, 1:] == true[:, :-1]
        if bool((moved_ & ~tied).any()):
            failed.append(f"{asked}: edges")
    return {"problems": len(options), "failed": failed}
