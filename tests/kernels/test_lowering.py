"""The Triton forms compiled to machine code for real devices; the interpreter accepts more than the compiler does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def test_kernels_compile_and_round_every_step(tmp_path: Path) -> None:
    """No product is fused into a sum as they are launched; with fusion let in, the same check sees some."""
    pytest.importorskip("triton")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    run = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert {row["kernel"] for row in found} == {
        "tercet_kernels.cosine.cuda.pair_distances_kernel", "tercet_kernels.fragment.cuda.visit_kernel",
        "tercet_kernels.triplet_topk.cuda.score_kernel", "tercet_kernels.expand.cuda.mark_kernel",
        "tercet_kernels.expand.cuda.visit_kernel", "tercet_kernels.expand.cuda.list_kernel",
        "tercet_kernels.edge_filter.cuda.minima_kernel", "tercet_kernels.edge_filter.cuda.collect_kernel",
        "tercet_kernels.neighbors.cuda.mark_kernel", "tercet_kernels.neighbors.cuda.visit_kernel",
        "tercet_kernels.neighbors.cuda.count_kernel",
    }  # fmt: skip
    for row in found:
        assert row["cubin_bytes"] > 0
        assert (row["fused"] > 0) == row["fusing"], row
    visits = {row["minima"] > 0 for row in found if row["kernel"] == "tercet_kernels.neighbors.cuda.visit_kernel"}
    assert visits == {False, True}  # both walks, and the least of 64 bits is one instruction


def compile_instead(fusing: bool) -> None:
    """Make every launch compile the kernel with its real arguments and options, print what came out, and not run."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime.jit import JITFunction, mangle_type

    def launch(kernel: JITFunction, *args: Any, grid: Any, warmup: bool, **named: Any) -> None:
        names = [p.name for p in kernel.params]
        constants = {p.name: named.pop(p.name) for p in kernel.params if p.is_constexpr}
        given = dict(zip((n for n in names if n not in constants), args, strict=True))
        constants |= {n: x for n, x in given.items() if isinstance(x, int) and x == 1}  # as the launcher does
        types = {n: mangle_type(x) for n, x in given.items() if n not in constants}
        if fusing and "enable_fp_fusion" in named:
            named["enable_fp_fusion"] = True
        source = ASTSource(
            kernel, {n: types.get(n, "constexpr") for n in names}, {(names.index(n),): v for n, v in constants.items()}
        )
        made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=named)
        row = {
            "kernel": f"{kernel.__module__}.{kernel.__name__}", "fusing": fusing,
            "fused": made.asm["ptx"].count("fma.rn.f64"), "minima": made.asm["ptx"].count(".min.s64"),
            "cubin_bytes": len(made.asm["cubin"]),
        }  # fmt: skip
        print(json.dumps(row))

    JITFunction.run = launch


def main() -> None:
    import torch

    from tercet_kernels._types import NodeHits
    from tercet_kernels.cosine import cuda as cosine
    from tercet_kernels.cosine import reference as pairs
    from tercet_kernels.edge_filter import cuda as edge_filter
    from tercet_kernels.edge_filter import reference as edges
    from tercet_kernels.expand import cuda as expand
    from tercet_kernels.expand import reference as walks
    from tercet_kernels.fragment import cuda as fragment
    from tercet_kernels.neighbors import cuda as neighbors
    from tercet_kernels.neighbors import reference as levels
    from tercet_kernels.triplet_topk import cuda as triplet_topk
    from tercet_kernels.triplet_topk import reference as triplets

    torch.empty = torch.zeros  # nothing is computed: the counts must still be numbers
    example = pairs.example(3, 8)
    case = triplets.example()
    graph, whole = walks.example(), edges.example() | {"rule": case["rule"], "k": 2}
    whole["matched"] = whole["node_term"] > 0
    one_hit = NodeHits(torch.tensor([0, 1]), *(x[:1] for x in case["hits"][1:]))
    single = {name: whole[name][:1] for name in ("node_term", "key_value", "margin")}
    for fusing in (False, True):
        compile_instead(fusing)
        for vectors in (example["vectors"],) if fusing else (example["vectors"], example["vectors"].half()):
            scale = torch.ones(50, dtype=torch.float64)
            cosine.pair_distances(example["queries"], vectors, example["query"], example["row"], scale, torch.zeros(3))
        triplet_topk.triplet_topk(**case, k=3)
        if not fusing:
            for either in (False, True):
                fragment.fragment(case["topology"], case["hits"], either)
                fragment.fragment(case["topology"], one_hit, either)
            for queries in (1, 4):  # sizes of 1 are constants
                indptr = graph["indptr"][: queries + 1]
                allowed, row = torch.ones(2, 40, dtype=torch.bool), torch.zeros(queries, dtype=torch.int32)
                seed = graph["seed"][: 1 if queries == 1 else None]
                expand.expand(graph["topology"], indptr.clamp(max=len(seed)), seed, 2, allowed, row, queries > 1)
            edge_filter.edge_filter(**whole | single | {"rule": None, "matched": None})
            torch.empty = torch.ones  # as if nodes had been reached
            for options in ({"order": "rank"}, {"order": "edge", "rank": None, "relation": None, "walkable": None},
                            {"order": "node", "rank": None, "allowed": None, "allowed_row": None}):  # fmt: skip
                neighbors.neighbors(**levels.example() | {"direction": "both", "limit": None} | options)
            one = levels.example(1, 30, 1, 1) | {"indptr": torch.tensor([0, 1]), "begin": torch.tensor([0])}
            one |= {"node": torch.zeros(1, dtype=torch.int32), "walkable": torch.ones(1, dtype=torch.bool)}
            neighbors.neighbors(**one, direction="out", order="rank", limit=None)  # sizes of 1 here too
            torch.empty = torch.zeros
        edge_filter.edge_filter(**whole)


if __name__ == "__main__":
    main()
