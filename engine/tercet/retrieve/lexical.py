"""BM25 over the texts of nodes: weights are computed once, when the index is made; a search adds them up.

The index of changed texts is made of the one before: postings of documents that stay are renumbered, those of new ones
merged in, and all weights computed again from counts and lengths, so it is bit for bit what a new one would be.

Any word of a query may match (OR), so plain questions find the documents that hold their rare words.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.carried import Carried
from tercet.errors import InvalidArgument, InvalidData
from tercet.filters import Filters
from tercet.graph import Graph
from tercet.retrieve.counts import Counts, counted, merged, weighed
from tercet.retrieve.limits import limits
from tercet.retrieve.tokenizer import Tokens, bytes_of, tokenize
from tercet_kernels.lexical_topk import lexical_topk, text_rows
from tercet_kernels.lexical_topk.postings import Postings

COLUMNS = ("name", "text", "description")
METHODS = ("lucene", "robertson", "atire")
KINDS: dict[str, Any] = {
    "indptr": np.int64, "document": np.int32, "weight": np.float32, "frequency": np.int32, "length": np.int32,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class TextHits:
    """The best documents of B queries, a slice a query, by score descending, ties to the smaller node row."""

    indptr: torch.Tensor  # (B + 1,) int64
    node: torch.Tensor  # (T,) int32
    score: torch.Tensor  # (T,) float64, sums of float32 in the order of the query's tokens
    available: torch.Tensor  # (B,) int64 documents with at least one word of the query that the filter admits
    tokens: torch.Tensor  # (B,) int64 tokens of the query's text
    known: torch.Tensor  # (B,) int64 those of them that some document holds


@dataclass(frozen=True, eq=False)
class LexicalIndex:
    """Which documents hold each token, and how much it weighs there. Made by `LexicalIndex.build`."""

    postings: Postings
    vocabulary: pa.LargeStringArray  # (V,) tokens, ascending by their bytes
    k1: float
    b: float
    method: str
    frequency: np.ndarray  # (P,) int32 how often each posting's document holds its token
    length: np.ndarray  # (num_documents,) int32 tokens of each document
    stopwords: tuple[str, ...] = ()

    @staticmethod
    def build(
        source: Graph | pa.Array | pa.ChunkedArray | list[str],
        columns: Sequence[str] = COLUMNS,
        *,
        k1: float = 1.5,
        b: float = 0.75,
        method: Literal["lucene", "robertson", "atire"] = "lucene",
        stopwords: Iterable[str] | None = None,
    ) -> "LexicalIndex":
        """Index a graph's nodes, or texts as they are; document i is node row (or text) i.

        Args:
            source: a graph, or (N,) texts.
            columns: of the node table; their texts are joined by a blank, nulls skipped. Ignored for texts.
            k1: how slowly repeats of a word in a document stop counting.
            b: how much a document's length counts, in [0, 1].
            method: the variant of the formula (Kamphuis et al., "Which BM25 Do You Mean?", 2020). With N documents,
                n of them holding the token, f times in this one, of length l (mean a), "lucene" is
                ln(1 + (N - n + 0.5) / (n + 0.5)) * f / (f + k1 * (1 - b + b * l / a)).
            stopwords: words that are neither indexed nor found.

        Raises:
            InvalidArgument: a column that the node table doesn't have or that holds no text, or a bad parameter.
        """
        if method not in METHODS:
            raise InvalidArgument(f"method: expected one of {', '.join(map(repr, METHODS))}, got {method!r}")
        if not (np.isfinite(k1) and k1 >= 0):
            raise InvalidArgument(f"k1: expected a number of at least 0, got {k1!r}")
        if not 0 <= b <= 1:
            raise InvalidArgument(f"b: expected a number in [0, 1], got {b!r}")
        texts = _documents(source.nodes, columns) if isinstance(source, Graph) else source
        stop = tuple(stopwords or ())
        return _made(counted(tokenize(texts, stop)), float(k1), float(b), method, stop)

    def updated(self, graph: Graph, columns: Sequence[str], carried: Carried) -> "LexicalIndex":
        """The index that `build` would make of a changed graph.

        Args:
            graph, columns: as for `build`; columns are those that this index, on the CPU, was made of.
            carried: which document of this index each node is; texts of the others are read.
        """
        rows = carried.changed
        texts = _documents(graph.nodes.take(pa.array(rows)), columns)
        indptr, document = (x.numpy() for x in self.postings[:2])
        held = Counts(indptr, document, self.frequency, self.length, self.vocabulary)
        counts = merged(held, carried, counted(tokenize(texts, self.stopwords)))
        return _made(counts, self.k1, self.b, self.method, self.stopwords)

    @property
    def num_documents(self) -> int:
        return self.postings.num_documents

    def to(self, device: torch.device | str) -> "LexicalIndex":
        """The same index with its postings on another device; the vocabulary stays on the host."""
        indptr, document, weight, documents = self.postings
        return replace(self, postings=Postings(indptr.to(device), document.to(device), weight.to(device), documents))

    def search(self, texts: Sequence[str], k: int | Sequence[int], filters: Filters | None = None) -> TextHits:
        """The best documents of each query.

        Args:
            texts: (B,) queries; any text is legal. One without tokens, or with unknown ones only, has no hits.
            k: results a query, or (B,) one for each, at least 1.
            filters: which nodes each query may find; they count before the cut at k.

        Raises:
            InvalidArgument: a query that isn't a string, k below 1, or filters of another shape.
        """
        if isinstance(texts, (str, bytes)):
            raise InvalidArgument(f"texts: expected a list of queries, got one {type(texts).__name__}")
        tokens = tokenize(list(texts))
        queries = len(tokens.indptr) - 1
        limit = limits(k, queries)
        indptr, token = self._known(tokens)
        device = self.postings.document.device
        masks, row = self._masks(filters, queries)
        most = min(max(limit.tolist(), default=1), max(self.num_documents, 1))
        document, score, available = lexical_topk(
            self.postings, torch.from_numpy(indptr).to(device), torch.from_numpy(token).to(device), most, masks, row
        )
        kept = (document >= 0) & (torch.arange(most, device=device) < limit.to(device)[:, None])
        offsets = torch.zeros(queries + 1, dtype=torch.int64, device=device)
        offsets[1:] = kept.sum(1).cumsum(0)
        asked, found = (torch.from_numpy(np.diff(x)) for x in (tokens.indptr, indptr))
        return TextHits(offsets, document[kept], score[kept].double(), available, asked, found)

    def _known(self, tokens: Tokens) -> tuple[np.ndarray, np.ndarray]:
        """Offsets and vocabulary rows of the queries' tokens that the index has."""
        row = text_rows(*bytes_of(self.vocabulary), *bytes_of(tokens.words))[tokens.word]
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(row >= 0)])
        return before[tokens.indptr], row[row >= 0]

    def _masks(self, filters: Filters | None, queries: int) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        if filters is None or not filters.masks.shape[0]:
            return None, None
        if filters.masks.shape[1] != self.num_documents:
            raise InvalidArgument(
                f"filters: expected masks over {self.num_documents} documents, got {filters.masks.shape[1]}"
            )
        if filters.row.shape != (queries,):
            raise InvalidArgument(f"filters: expected a row for each of {queries} queries, got {len(filters.row)}")
        device = self.postings.document.device
        return filters.masks.to(device).contiguous(), filters.row.to(device).contiguous()

    def arrays(self) -> dict[str, np.ndarray]:
        """What the index is made of, but for the vocabulary.

        Returns:
            indptr (V + 1,) int64; document (P,) int32, weight (P,) float32 and frequency (P,) int32; length
            (num_documents,) int32.
        """
        indptr, document, weight = (x.cpu().numpy() for x in self.postings[:3])
        return {"indptr": indptr, "document": document, "weight": weight, "frequency": self.frequency,
                "length": self.length}  # fmt: skip

    @property
    def settings(self) -> dict[str, Any]:
        """The numbers and names that `from_arrays` needs beside the arrays, fit for JSON."""
        about = {"num_documents": self.num_documents, "k1": self.k1, "b": self.b, "method": self.method}
        return about | ({"stopwords": list(self.stopwords)} if self.stopwords else {})

    @staticmethod
    def from_arrays(
        arrays: Mapping[str, np.ndarray], vocabulary: pa.LargeStringArray, settings: Mapping[str, Any]
    ) -> "LexicalIndex":
        """The index that `arrays`, `vocabulary` and `settings` were taken from.

        Raises:
            InvalidData: the parts don't fit each other.
        """
        for name, kind in KINDS.items():
            if arrays[name].dtype != kind or arrays[name].ndim != 1:
                raise InvalidData(
                    f"lexical {name}: expected one dimension of {np.dtype(kind)}, got {arrays[name].dtype}"
                )
        indptr, document, weight, frequency, length = (arrays[name] for name in KINDS)
        documents = int(settings["num_documents"])
        if len(length) != documents:
            raise InvalidData(f"lexical length: expected one for each of {documents} documents, got {len(length)}")
        offsets_fit = len(indptr) == len(vocabulary) + 1 and indptr[0] == 0 and indptr[-1] == len(document)
        sizes_fit = len(weight) == len(frequency) == len(document)
        if not offsets_fit or (np.diff(indptr) < 0).any() or not sizes_fit:
            raise InvalidData(f"lexical indptr: doesn't divide {len(document)} postings among {len(vocabulary)} tokens")
        if len(document) and not 0 <= document.min() <= document.max() < documents:
            raise InvalidData(f"lexical document: expected rows below {documents}, got {document.max()}")
        words = vocabulary.cast(pa.large_string())
        if len(words) > 1 and not pc.all(pc.less(words[:-1], words[1:])).as_py():
            raise InvalidData("lexical vocabulary: expected distinct tokens in ascending order")
        postings = _postings(indptr, document, weight, documents)
        return LexicalIndex(
            postings, words, float(settings["k1"]), float(settings["b"]), str(settings["method"]), frequency, length,
            tuple(settings.get("stopwords", ())),
        )  # fmt: skip


def _documents(nodes: pa.Table, columns: Sequence[str]) -> pa.Array:
    """(N,) the texts of some columns, joined by a blank."""
    if not columns:
        raise InvalidArgument("columns: expected at least one column of the node table, got none")
    parts = []
    for name in columns:
        if name not in nodes.schema.names:
            raise InvalidArgument(f"columns: the node table has no column {name!r}, only {nodes.schema.names}")
        column = nodes.column(name)
        kind = column.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
            raise InvalidArgument(f"columns: expected a column of text, {name!r} holds {kind}")
        parts.append(column.cast(pa.large_string()))
    parts[0] = pc.fill_null(parts[0], "")  # Arrow leaves out a row altogether when all its parts are null
    return pc.binary_join_element_wise(*parts, pa.scalar(" ", pa.large_string()), null_handling="skip")


def _made(counts: Counts, k1: float, b: float, method: str, stopwords: tuple[str, ...]) -> LexicalIndex:
    weight = weighed(counts, k1, b, method)
    postings = _postings(counts.indptr, counts.document, weight, len(counts.length))
    return LexicalIndex(postings, counts.words, k1, b, method, counts.frequency, counts.length, stopwords)


def _postings(indptr: np.ndarray, document: np.ndarray, weight: np.ndarray, documents: int) -> Postings:
    return Postings(
        torch.from_numpy(np.ascontiguousarray(indptr, np.int64)),
        torch.from_numpy(np.ascontiguousarray(document, np.int32)),
        torch.from_numpy(np.ascontiguousarray(weight, np.float32)),
        documents,
    )
