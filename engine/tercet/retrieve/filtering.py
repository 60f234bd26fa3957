"""Two filters that must both hold."""

import torch

from tercet.filters import Filters


def both(a: Filters, b: Filters) -> Filters:
    """The filters of a batch narrowed by further ones; each distinct pair is one mask."""
    if a.masks.shape[0] == 0 or b.masks.shape[0] == 0:
        return b if a.masks.shape[0] == 0 else a
    pair = a.row.long() * (b.masks.shape[0] + 1) + b.row.long()
    made, row = torch.unique(pair, return_inverse=True)
    first = torch.full(made.shape, pair.shape[0], dtype=torch.int64)
    first.scatter_reduce_(0, row, torch.arange(pair.shape[0]), "amin")
    masks = []
    for i in first.tolist():
        mine, theirs = int(a.row[i]), int(b.row[i])
        if mine >= 0 and theirs >= 0:
            masks.append(a.masks[mine] & b.masks[theirs])
        elif mine >= 0 or theirs >= 0:
            masks.append(a.masks[mine] if mine >= 0 else b.masks[theirs])
        else:
            masks.append(torch.ones_like(a.masks[0]))
    free = (a.row < 0) & (b.row < 0)
    return Filters(torch.stack(masks), torch.where(free, -1, row).int())
