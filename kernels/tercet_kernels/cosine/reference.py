"""Plain torch form of the fixed-order cosine distance."""

import torch

LANES = 16
ROWS = 1 << 15  # rows widened to float64 at a time


def fold(lanes: torch.Tensor) -> torch.Tensor:
    """Add (P, 16) lanes in halves: 16, 8, 4, 2, 1."""
    width = LANES
    while width > 1:
        width //= 2
        lanes = lanes[:, :width] + lanes[:, width : 2 * width]
    return lanes[:, 0]


def dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """(P,) float64 dot products of (P, D) rows."""
    lanes = torch.zeros(a.shape[0], LANES, dtype=torch.float64, device=a.device)
    for start in range(0, a.shape[1], LANES):
        x, y = a[:, start : start + LANES].double(), b[:, start : start + LANES].double()
        lanes[:, : x.shape[1]] += x * y
    return fold(lanes)


def pair_distances(
    queries: torch.Tensor,
    vectors: torch.Tensor,
    query: torch.Tensor,
    row: torch.Tensor,
    scale: torch.Tensor | None = None,
) -> torch.Tensor:
    out = torch.empty(query.shape[0], dtype=torch.float32, device=queries.device)
    for start in range(0, query.shape[0], ROWS):
        part = slice(start, start + ROWS)
        chosen = row[part].long()
        product = dot(queries[query[part].long()], vectors[chosen])
        if scale is not None:
            product = product * scale[chosen]
        out[part] = (1.0 - product).clamp(0.0, 2.0).float()
    return out


def norms(vectors: torch.Tensor) -> torch.Tensor:
    parts = [dot(part, part) for part in vectors.split(ROWS)] if vectors.shape[0] else [vectors.new_zeros(0).double()]
    return torch.cat(parts).sqrt()


def example(pairs: int, dimension: int, seed: int = 0, device: str = "cpu") -> dict:
    generator = torch.Generator().manual_seed(seed)
    queries = torch.nn.functional.normalize(torch.randn(7, dimension, generator=generator), dim=1)
    vectors = torch.nn.functional.normalize(torch.randn(50, dimension, generator=generator), dim=1)
    query = torch.randint(0, 7, (pairs,), generator=generator, dtype=torch.int32)
    row = torch.randint(0, 50, (pairs,), generator=generator, dtype=torch.int32)
    return {k: v.to(device) for k, v in {"queries": queries, "vectors": vectors, "query": query, "row": row}.items()}
