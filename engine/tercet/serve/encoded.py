"""Texts that were encoded ahead of the batch which they are searched in."""

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tercet.encoder import Encoder
    from tercet.fingerprint import Fingerprint
    from tercet.serve.requests import Request


class Encoded:
    """An encoder that has the vectors of some texts already."""

    def __init__(self, encoder: "Encoder", known: dict[str, tuple[torch.Tensor, int]]) -> None:
        self.encoder, self.known = encoder, known

    @property
    def dimension(self) -> int:
        return self.encoder.dimension

    def fingerprint(self) -> "Fingerprint":
        return self.encoder.fingerprint()

    def encode(self, texts: list[str]) -> torch.Tensor:
        """(B, D) float32 on the CPU, row i for text i, unit norm."""
        places = [self.known.get(text) for text in texts]
        if any(p is None for p in places):
            return self.encoder.encode(texts)
        return torch.stack([p[0][p[1]] for p in places if p is not None])


def encode_ahead(encoder: Any, requests: "Sequence[Request]") -> None:
    """Encode the texts of some requests in one call, and leave each request its rows.

    Whatever the encoder raises is raised.
    """
    distinct = list(dict.fromkeys(text for r in requests for text in r.texts))
    rows = encoder.encode(distinct)
    place = {text: i for i, text in enumerate(distinct)}
    for r in requests:
        r.encoded = encoder, {text: (rows, place[text]) for text in r.texts}


def known_to(encoder: Any, requests: "Sequence[Request]") -> Any:
    """The encoder, with the vectors that it made ahead for some requests."""
    known: dict[str, tuple[torch.Tensor, int]] = {}
    for r in requests:
        if r.encoded is not None and r.encoded[0] is encoder:
            known.update(r.encoded[1])
    return Encoded(encoder, known) if known else encoder
