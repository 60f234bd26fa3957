"""Triton form of the fixed-order cosine distance."""

import torch
import triton
import triton.language as tl

LANES = 16
BLOCK_P = 32  # pairs a program


@triton.jit
def pair_distances_kernel(
    queries, vectors, query, row, scale, out, num_pairs, width,
    SCALED: tl.constexpr, LANES: tl.constexpr, HALVINGS: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    offs_p = tl.program_id(0).to(tl.int64) * BLOCK_P + tl.arange(0, BLOCK_P)
    mask_p = offs_p < num_pairs
    r = tl.load(row + offs_p, mask=mask_p, other=0).to(tl.int64)
    x_row = queries + tl.load(query + offs_p, mask=mask_p, other=0).to(tl.int64) * width
    y_row = vectors + r * width
    offs_l = tl.arange(0, LANES)
    lanes = tl.zeros((BLOCK_P, LANES), tl.float64)
    for start in range(0, width, LANES):
        offs_d = start + offs_l
        mask = mask_p[:, None] & (offs_d < width)[None, :]
        x = tl.load(x_row[:, None] + offs_d[None, :], mask=mask, other=0.0)
        y = tl.load(y_row[:, None] + offs_d[None, :], mask=mask, other=0.0)
        # lanes start at +0.0 and so never hold -0.0: the zeros past the end change nothing
        lanes += x.to(tl.float64) * y.to(tl.float64)
    # tl.sum promises no order: fold in halves, the upper onto the lower
    for step in tl.static_range(HALVINGS):
        halves = tl.reshape(lanes, (BLOCK_P, 2, LANES >> (step + 1)))
        lower, upper = tl.split(tl.permute(halves, (0, 2, 1)))
        lanes = lower + upper
    product = tl.reshape(lanes, (BLOCK_P,))
    if SCALED:
        product = product * tl.load(scale + r, mask=mask_p, other=0.0)
    distance = 1.0 - product
    distance = tl.where(distance < 0.0, 0.0, distance)  # NaN stays NaN
    distance = tl.where(distance > 2.0, 2.0, distance)
    tl.store(out + offs_p, distance.to(tl.float32), mask=mask_p)


def pair_distances(
    queries: torch.Tensor,
    vectors: torch.Tensor,
    query: torch.Tensor,
    row: torch.Tensor,
    scale: torch.Tensor | None,
    out: torch.Tensor,
) -> None:
    """Fill `out` (P,) float32; arguments as checked by the public function."""
    pairs = query.shape[0]
    if pairs == 0:
        return
    with torch.cuda.device_of(out):
        pair_distances_kernel[(triton.cdiv(pairs, BLOCK_P),)](
            queries, vectors, query, row, out if scale is None else scale, out, pairs, queries.shape[1],
            SCALED=scale is not None, LANES=LANES, HALVINGS=LANES.bit_length() - 1, BLOCK_P=BLOCK_P,
            enable_fp_fusion=False,  # 1 - product * scale in one rounding would be other bits
        )  # fmt: skip
