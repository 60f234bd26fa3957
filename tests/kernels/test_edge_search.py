"""`edge_search` against scoring every edge exactly."""

import pytest
import torch

from tercet_kernels import cosine
from tercet_kernels.edge_search import Terms, edge_search
from tercet_kernels.nearest import encode
from tercet_kernels.term_floors import LARGEST, pack_bytes, padded, term_floors
from tests.kernels.test_edge_prune import topology_of

PENALTY, STEP = 6.5, 0.0075


def drawn(seed, nodes=90, edges=700, queries=4, keys=7, width=20, few=0, missing=False):
    """Rows, edges and queries; `few`: so many distinct rows, so that scores tie."""
    g = torch.Generator().manual_seed(seed)
    pick = lambda high, size: torch.randint(0, high, (size,), generator=g)  # noqa: E731
    rows = lambda n: torch.nn.functional.normalize(torch.randn(n, width, generator=g), dim=1)  # noqa: E731
    topology, ends = topology_of(pick(nodes, edges), pick(nodes, edges), pick(keys + 1, edges) - 1, nodes, keys)
    vectors = [rows(few)[pick(few, n)] if few else rows(n) for n in (nodes, keys)]
    has = [torch.rand(n, generator=g) < (0.7 if missing else 2.0) for n in (nodes, keys)]
    factor = torch.rand(nodes, generator=g).double() + 1.0
    importance = torch.rand(edges, generator=g).double()
    return topology, ends, [v.contiguous() for v in vectors], has, rows(queries), factor, importance


def search(example, k, **options):
    """What the kernel finds, and the edges that it should find."""
    topology, ends, vectors, has, queries, factor, importance = example
    count = queries.shape[0]
    address, floors, terms = [], [], []
    for v, known, weight in zip(vectors, has, (factor, torch.ones(1).double()), strict=True):
        rows = torch.arange(len(v))
        address.append(torch.where(known, v.data_ptr() + rows * 4 * v.shape[1], 0))
        table = torch.full((count, padded(len(v) + (len(weight) == 1))), LARGEST, dtype=torch.uint8)
        table[:, : len(v)] = min(LARGEST, int(PENALTY * float(weight.min()) / STEP))
        packed = (weight / STEP * (1 - 1e-6)).float()
        if len(packed) > 1:
            packed = torch.cat([packed, torch.zeros(table.shape[1] - len(packed))])
        term_floors(encode(v), pack_bytes(queries), packed, table, torch.where(known, rows, -1).int())
        floors.append(table)
        pairs = torch.cartesian_prod(torch.arange(count), rows).int()
        distance = cosine.pair_distances(queries, v, pairs[:, 0].contiguous(), pairs[:, 1].contiguous())
        terms.append(torch.where(known, distance.view(count, -1).double(), PENALTY))
    got = edge_search(
        topology, ends, *floors, STEP, Terms(*address, factor, importance, PENALTY), queries, k, **options
    )  # fmt: skip
    node = terms[0] * factor
    key = torch.cat([terms[1], torch.full((count, 1), PENALTY).double()], dim=1)
    source, target, kind = (x.long() for x in topology[:3])
    scores = (node[:, source] + node[:, target]) + key[:, kind] * (2.0 - importance)
    worst = scores.sort(dim=1).values[:, min(k, scores.shape[1]) - 1 : min(k, scores.shape[1])]
    return got, [torch.nonzero(s <= w).flatten().tolist() for s, w in zip(scores, worst, strict=True)]


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("few", [0, 4])
@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize("seeds", [1, 16, 64])
def test_equals_scoring_everything(seeds, k, few, missing):
    closed = 0
    for seed in range(4):
        got, wanted = search(drawn(seed, few=few, missing=missing), k, seeds=seeds, share=1)
        for q, edges in enumerate(wanted):
            mine = got.edge[got.indptr[q] : got.indptr[q + 1]].tolist()
            assert mine == ([] if got.open[q] else edges)
        closed += int((~got.open).sum())
    assert closed == 16


def test_odd_sizes():
    for nodes in (1, 2, 63, 64, 65, 129):
        for width in (1, 15, 16, 33):
            got, wanted = search(drawn(nodes, nodes=nodes, edges=300, width=width), 3, share=1)
            for q, edges in enumerate(wanted):
                mine = got.edge[got.indptr[q] : got.indptr[q + 1]].tolist()
                assert got.open[q] or mine == edges
    got, _ = search(drawn(1, edges=3), 5, share=1)
    assert got.open.all()  # fewer than k edges


def test_too_much_to_read_is_left_open():
    got, _ = search(drawn(2), 3, share=1 << 20)
    assert got.open.all()
    assert not got.read.any()


def test_wrong_arguments():
    topology, ends, _, _, queries, factor, importance = drawn(3)
    node = torch.zeros(4, 128, dtype=torch.uint8)
    terms = Terms(torch.zeros(90, dtype=torch.int64), torch.zeros(7, dtype=torch.int64), factor, importance, PENALTY)
    key = torch.zeros(4, 64, dtype=torch.uint8)
    edge_search(topology, ends, node, key, STEP, terms, queries, 1)
    with pytest.raises(ValueError, match="node_floor"):
        edge_search(topology, ends, node[:, :64].contiguous(), key, STEP, terms, queries, 1)
    with pytest.raises(ValueError, match="edge_importance"):
        edge_search(topology, ends, node, key, STEP, terms._replace(edge_importance=factor), queries, 1)
    with pytest.raises(ValueError, match="k"):
        edge_search(topology, ends, node, key, STEP, terms, queries, 0)
