from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels.lexical_topk import cpu, lexical_topk, reference, text_rows
from tercet_kernels.lexical_topk.postings import Postings
from tests.kernels.cases import assert_same, offsets_of, to


def postings_of(lists: list[dict[int, float]], documents: int) -> Postings:
    """Postings from a dictionary {document: weight} a token."""
    rows = [sorted(entries.items()) for entries in lists]
    return Postings(
        offsets_of(rows),
        torch.tensor([d for row in rows for d, _ in row], dtype=torch.int32),
        torch.tensor([w for row in rows for _, w in row], dtype=torch.float32),
        documents,
    )


def queries_of(queries: list[list[int]]) -> dict[str, torch.Tensor]:
    return {
        "indptr": offsets_of(queries),
        "token": torch.tensor([t for query in queries for t in query], dtype=torch.int32),
    }


def plain(
    lists: list[dict[int, float]], query: list[int], k: int, allowed: list[bool] | None
) -> tuple[list[tuple[int, float]], int]:
    """Sums in a dictionary, in float32."""
    total: dict[int, np.float32] = {}
    for token in query:
        for document, weight in lists[token].items():
            total[document] = total.get(document, np.float32(0)) + np.float32(weight)
    admitted = [(d, float(s)) for d, s in total.items() if allowed is None or allowed[d]]
    return sorted(admitted, key=lambda x: (-x[1], x[0]))[:k], len(admitted)


def pairs(document: torch.Tensor, score: torch.Tensor) -> list[list[tuple[int, float]]]:
    """The results of each query without the padding, which must be -1 and -inf and come last."""
    assert torch.equal(document < 0, score == -torch.inf)
    assert bool(((document < 0).int().diff(dim=1) >= 0).all())
    return [
        [(d, s) for d, s in zip(row, scores, strict=True) if d >= 0]
        for row, scores in zip(document.tolist(), score.tolist(), strict=True)
    ]


def no_filter(queries: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(1, 1, dtype=torch.bool), torch.full((queries,), -1, dtype=torch.int32)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[dict[int, float]], int, list[list[int]]]:
    documents = draw(st.integers(1, 8))
    weight = st.sampled_from([0.1, 0.25, 0.3, 1.7, 2.0, 0.0, -0.5])
    lists = draw(st.lists(st.dictionaries(st.integers(0, documents - 1), weight), min_size=1, max_size=5))
    queries = draw(st.lists(st.lists(st.integers(0, len(lists) - 1), max_size=6), max_size=4))
    return lists, documents, queries


@given(
    case=cases(), k=st.integers(1, 10), bits=st.lists(st.booleans(), min_size=16, max_size=16), filtered=st.booleans()
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_finds_what_plain_sums_find(case, k: int, bits: list[bool], filtered: bool) -> None:
    lists, documents, queries = case
    allowed = torch.tensor(bits[: 2 * documents]).reshape(2, documents)
    rows = [i % 3 - 1 if filtered else -1 for i in range(len(queries))]
    want = [
        plain(lists, query, k, None if row < 0 else allowed[row].tolist())
        for query, row in zip(queries, rows, strict=True)
    ]
    postings, asked, row = postings_of(lists, documents), queries_of(queries), torch.tensor(rows, dtype=torch.int32)
    for form in (lexical_topk, reference.lexical_topk):
        document, score, available = form(postings, **asked, k=k, allowed=allowed, allowed_row=row)
        assert pairs(document, score) == [hits for hits, _ in want]
        assert available.tolist() == [count for _, count in want]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("k", [1, 10, 2000])
@pytest.mark.parametrize("share", [0.3, 0.01])
def test_equals_the_reference(device: str, size: int, k: int, share: float) -> None:
    """Long lists are summed over all documents, short ones over those they name."""
    case = reference.example(7, documents=size, tokens=20, length=9, share=share, seed=size, device=device)
    g = torch.Generator().manual_seed(size)
    allowed = (torch.rand(2, size, generator=g) < 0.5).to(device)
    row = torch.tensor([-1, 0, 1, 0, -1, 1, 0], dtype=torch.int32, device=device)
    got = lexical_topk(**case, k=k, allowed=allowed, allowed_row=row)
    assert_same(got, reference.lexical_topk(**case, k=k, allowed=allowed, allowed_row=row))
    assert [tuple(x.shape) for x in got] == [(7, k), (7, k), (7,)]
    assert size < 63 or int(got[2].max()) > 0


def test_sums_and_ties_by_hand(device: str) -> None:
    """Document 3 has both tokens; 1 and 2 tie at 1.0; 0 has neither; a repeated token counts twice."""
    postings = to(postings_of([{1: 1.0, 3: 0.5}, {2: 1.0, 3: 2.0}], 4), device)
    asked = to_device(queries_of([[0, 1], [], [0, 0], [1]]), device)
    document, score, available = lexical_topk(postings, **asked, k=3)
    assert pairs(document, score) == [[(3, 2.5), (1, 1.0), (2, 1.0)], [], [(1, 2.0), (3, 1.0)], [(3, 2.0), (2, 1.0)]]
    assert available.tolist() == [3, 0, 2, 2]


def test_a_matching_document_is_returned_whatever_its_score(device: str) -> None:
    postings = to(postings_of([{0: 0.0, 2: -1.0, 4: 1.0}, {0: 0.0, 4: -1.0}], 5), device)
    document, score, available = lexical_topk(postings, **to_device(queries_of([[0, 1]]), device), k=5)
    assert pairs(document, score) == [[(0, 0.0), (4, 0.0), (2, -1.0)]]
    assert available.tolist() == [3]


def to_device(asked: dict[str, torch.Tensor], device: str) -> dict[str, torch.Tensor]:
    return {name: x.to(device) for name, x in asked.items()}


def test_the_filter_counts_before_the_cut(device: str) -> None:
    """All 20,000 documents match; filters of 322, 1 and no document, and none: each list is full within its filter."""
    size = 20_000
    weight = (torch.arange(size) % 97).float() + 1
    postings = to(Postings(torch.tensor([0, size]), torch.arange(size, dtype=torch.int32), weight, size), device)
    masks = torch.zeros(3, size, dtype=torch.bool)
    masks[0, ::62] = True  # 323 with document 0
    masks[0, 0] = False
    masks[1, 777] = True
    asked = to_device(queries_of([[0]] * 4), device)
    row = torch.tensor([0, 1, 2, -1], dtype=torch.int32, device=device)
    document, score, available = lexical_topk(postings, **asked, k=100, allowed=masks.to(device), allowed_row=row)
    found = pairs(document, score)
    assert available.tolist() == [322, 1, 0, size]
    assert [len(hits) for hits in found] == [100, 1, 0, 100]
    for hits, mask in zip(found, [*masks, torch.ones(size, dtype=torch.bool)], strict=True):
        inside = mask.nonzero().squeeze(1).tolist()
        assert hits == sorted(((d, float(weight[d])) for d in inside), key=lambda x: (-x[1], x[0]))[:100]


def test_a_query_scores_the_same_bits_alone_and_in_any_batch(device: str) -> None:
    case = reference.example(9, documents=300, tokens=30, length=12, seed=5)
    case["postings"] = case["postings"]._replace(
        weight=torch.rand(case["postings"].weight.shape, generator=torch.Generator().manual_seed(1))
    )
    bounds = case["indptr"].tolist()
    asked = [case["token"][a:b].tolist() for a, b in pairwise(bounds)]
    whole = lexical_topk(to(case["postings"], device), case["indptr"].to(device), case["token"].to(device), k=40)
    for rows in ([8, 3, 0, 1, 7, 4, 2, 6, 5], [4], [2, 2, 2]):
        part = lexical_topk(
            to(case["postings"], device), **to_device(queries_of([asked[q] for q in rows]), device), k=40
        )
        assert_same(part, [x[rows] for x in whole])


def test_does_not_depend_on_the_number_of_threads() -> None:
    case = reference.example(7, documents=60, tokens=9)
    arrays = [x.numpy() for x in (*case["postings"][:3], case["indptr"], case["token"], *no_filter(7))]
    want = reference.lexical_topk(**case, k=20, **dict(zip(("allowed", "allowed_row"), no_filter(7), strict=True)))
    for count in (1, 2, 7, 9):
        got = cpu.lexical_topk(*arrays, 20, *cpu.scratch(count, 60))
        assert_same([torch.from_numpy(x) for x in got], want)


def test_no_queries_and_no_documents(device: str) -> None:
    empty = to(postings_of([], 0), device)
    got = lexical_topk(empty, **to_device(queries_of([]), device), k=2)
    assert [tuple(x.shape) for x in got] == [(0, 2), (0, 2), (0,)]
    document, _, available = lexical_topk(empty, **to_device(queries_of([[], []]), device), k=2)
    assert document.tolist() == [[-1, -1]] * 2
    assert available.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("indptr", lambda x: x.int()),
        ("token", lambda x: x.long()),
        ("token", lambda x: x[:, None]),
        ("k", lambda x: 0),
        ("allowed", lambda x: x.int()),
        ("allowed", lambda x: x[:, 1:].contiguous()),
        ("allowed_row", lambda x: x[1:]),
        ("allowed_row", lambda x: None),
        ("postings", lambda x: x._replace(weight=x.weight.double())),
        ("postings", lambda x: x._replace(document=x.document.long())),
    ],
)
def test_refuses_other_shapes_and_dtypes(device: str, name: str, change) -> None:
    case = reference.example(device=device) | {"k": 3}
    case["allowed"] = torch.ones(1, 50, dtype=torch.bool, device=device)
    case["allowed_row"] = torch.zeros(4, dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match=rf"^{name}[.\w]*: expected"):
        lexical_topk(**case | {name: change(case[name])})


@given(st.lists(st.text(max_size=4), max_size=12, unique=True), st.lists(st.text(max_size=4), max_size=8))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_text_rows_finds_what_a_dictionary_finds(held: list[str], wanted: list[str]) -> None:
    def flat(texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
        return np.cumsum([0, *map(len, texts)]), np.frombuffer(b"".join(texts), np.uint8)

    rows = sorted(text.encode() for text in held)
    asked = [text.encode() for text in [*wanted, *held[:3]]]
    found = text_rows(*flat(rows), *flat(asked))
    assert found.tolist() == [rows.index(text) if text in rows else -1 for text in asked]
