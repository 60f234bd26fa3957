"""The documents of highest summed weight over the tokens of each query."""

import numpy as np
import torch

from tercet_kernels._checks import check, check_k
from tercet_kernels._threads import threads
from tercet_kernels.lexical_topk import cpu, reference
from tercet_kernels.lexical_topk.postings import Postings


def lexical_topk(
    postings: Postings,
    indptr: torch.Tensor,
    token: torch.Tensor,
    k: int,
    allowed: torch.Tensor | None = None,
    allowed_row: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Best documents of each query, by score descending, ties to the smaller document.

    A document's score is the float32 sum of its weights in the lists of the query's tokens, added in the order of the
    tokens, so it is the same bits in any batch. A repeated token counts as often as it is there. Only documents in at
    least one of the lists are returned, whatever their score.

    Args:
        postings: the lists.
        indptr: (B + 1,) int64 offsets of each query's tokens.
        token: (M,) int32 in [0, V).
        k: results a query, at least 1.
        allowed: (F, N) bool: documents that may be returned, one row a filter.
        allowed_row: (B,) int32 row of `allowed` for each query, -1 for no filter.

    Returns:
        (document (B, k) int32 or -1, score (B, k) float32 or -inf, available (B,) int64: documents in at least one of
        the lists that the filter admits).

    Raises:
        ValueError: a shape, dtype or device differs from the above, or allowed comes without allowed_row.

    Memory: on the CPU 8 bytes a document and thread, of which only the touched pages exist; on CUDA, where the
    reference runs, about 60 bytes a posting read, and several host syncs.
    """
    device, queries = postings.document.device, indptr.shape[0] - 1
    check("postings.indptr", postings.indptr, (None,), torch.int64, device)
    check("postings.document", postings.document, (None,), torch.int32, device)
    check("postings.weight", postings.weight, postings.document.shape, torch.float32, device)
    check("indptr", indptr, (None,), torch.int64, device)
    check("token", token, (None,), torch.int32, device)
    check_k(k)
    if allowed is None:
        allowed = torch.ones(1, 1, dtype=torch.bool, device=device)  # never read
        allowed_row = torch.full((queries,), -1, dtype=torch.int32, device=device)
    else:
        check("allowed", allowed, (None, postings.num_documents), torch.bool, device)
    if allowed_row is None:
        raise ValueError("allowed_row: expected a tensor beside allowed, got None")
    check("allowed_row", allowed_row, (queries,), torch.int32, device)
    if device.type != "cpu":
        return reference.lexical_topk(postings, indptr, token, k, allowed, allowed_row)
    at = token.long()
    read = (postings.indptr[at + 1] - postings.indptr[at]).sum()
    parts = threads(queries, steps=2.0 * float(read))
    found = cpu.lexical_topk(
        *(x.numpy() for x in (*postings[:3], indptr, token, allowed, allowed_row)),
        k, *cpu.scratch(parts, postings.num_documents),
    )  # fmt: skip
    return torch.from_numpy(found[0]), torch.from_numpy(found[1]), torch.from_numpy(found[2])


def text_rows(offsets: np.ndarray, data: np.ndarray, wanted_offsets: np.ndarray, wanted_data: np.ndarray) -> np.ndarray:
    """Rows of texts in a sorted column of distinct texts.

    Args:
        offsets: (V + 1,) int64 offsets of the column's texts into its bytes.
        data: (bytes,) uint8 UTF-8; the column is ascending by bytes.
        wanted_offsets: (T + 1,) int64.
        wanted_data: (bytes,) uint8.

    Returns:
        (T,) int32, -1 where the column doesn't hold a text.
    """
    return cpu.text_rows(offsets, data, wanted_offsets, wanted_data)
