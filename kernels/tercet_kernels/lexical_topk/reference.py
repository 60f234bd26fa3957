"""Plain torch form of `lexical_topk`: one row a (query, posting), sorted by document and summed in rounds."""

import torch

from tercet_kernels.fragment.reference import expand as lists
from tercet_kernels.lexical_topk.postings import Postings


def lexical_topk(
    postings: Postings,
    indptr: torch.Tensor,
    token: torch.Tensor,
    k: int,
    allowed: torch.Tensor,
    allowed_row: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    device, queries, size = token.device, indptr.shape[0] - 1, max(postings.num_documents, 1)
    query = torch.repeat_interleave(torch.arange(queries, device=device), indptr.diff())
    at, place = lists(postings.indptr, torch.arange(postings.document.shape[0], device=device), token.long())
    document, query = postings.document[place].long(), query[at]
    row = allowed_row[query].long()
    free = (row < 0) | allowed[row.clamp(min=0), document.clamp(max=allowed.shape[1] - 1)]
    key, order = (query * size + document)[free].sort(stable=True)  # tokens stay in their order
    weight = postings.weight[place][free][order]
    found, counts = torch.unique_consecutive(key, return_counts=True)
    first = counts.cumsum(0) - counts
    score = weight[first]
    for nth in range(1, int(counts.max()) if counts.shape[0] else 0):
        more = counts > nth
        score[more] = score[more] + weight[first[more] + nth]
    order = score.sort(descending=True, stable=True).indices
    order = order[(found[order] // size).sort(stable=True).indices]
    available = torch.bincount(found // size, minlength=queries)
    rank = torch.arange(order.shape[0], device=device) - torch.repeat_interleave(
        available.cumsum(0) - available, available
    )
    kept, rank = order[rank < k], rank[rank < k]
    documents = torch.full((queries, k), -1, dtype=torch.int32, device=device)
    scores = torch.full((queries, k), -torch.inf, device=device)
    documents[found[kept] // size, rank] = (found[kept] % size).int()
    scores[found[kept] // size, rank] = score[kept]
    return documents, scores, available


def example(
    queries: int = 4, documents: int = 50, tokens: int = 12, length: int = 5, share: float = 0.3, seed: int = 0,
    device: str = "cpu",
) -> dict:  # fmt: skip
    """Lists of a share of the documents, weights of few values so that scores tie, queries with repeats."""
    g = torch.Generator().manual_seed(seed)
    held = torch.rand(tokens, documents, generator=g) < share
    indptr = torch.zeros(tokens + 1, dtype=torch.int64)
    indptr[1:] = held.sum(1).cumsum(0)
    document = held.nonzero()[:, 1].int()
    weight = torch.randint(1, 8, document.shape, generator=g).float() / 7
    count = torch.randint(0, length + 1, (queries,), generator=g)
    asked = torch.zeros(queries + 1, dtype=torch.int64)
    asked[1:] = count.cumsum(0)
    token = torch.randint(0, tokens, (int(asked[-1]),), generator=g, dtype=torch.int32)
    made = Postings(indptr.to(device), document.to(device), weight.to(device), documents)
    return {"postings": made, "indptr": asked.to(device), "token": token.to(device)}
