"""The arrays of a lexical index, as the kernels read them."""

from typing import NamedTuple

import torch


class Postings(NamedTuple):
    """Documents of each token, a slice a token, ascending by document within it, each document once."""

    indptr: torch.Tensor  # (V + 1,) int64
    document: torch.Tensor  # (P,) int32 in [0, num_documents)
    weight: torch.Tensor  # (P,) float32, finite, no -0.0
    num_documents: int
