"""`edge_prune` against the reference that scores every edge."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels._types import EdgeRule, Topology
from tercet_kernels.csr import group
from tercet_kernels.edge_filter import reference
from tercet_kernels.edge_prune import KeyVectors, edge_prune


def topology_of(source, target, key, nodes, num_keys):
    source, target, key = (torch.as_tensor(x, dtype=torch.int32) for x in (source, target, key))
    out, into = group(source, nodes), group(target, nodes)
    none = torch.zeros(0, dtype=torch.int32)
    topology = Topology(
        source, target, key, torch.zeros(nodes + 1, dtype=torch.int64), none, none, *out, *into, num_keys
    )
    return topology, (target[out[1].long()], source[into[1].long()])


def drawn(seed, nodes=60, edges=400, queries=5, keys=6, coarse=False):
    g = torch.Generator().manual_seed(seed)
    pick = lambda high, size: torch.randint(0, high, (size,), generator=g)  # noqa: E731
    topology, ends = topology_of(pick(nodes, edges), pick(nodes, edges), pick(keys + 1, edges) - 1, nodes, keys)
    term, key = torch.rand(queries, nodes, generator=g), torch.rand(queries, keys + 1, generator=g)
    if coarse:  # ties everywhere
        term, key = term.mul(4).round().div(4), key.mul(2).round().div(2)
    return {"topology": topology, "node_term": term, "key_value": key, "margin": torch.full((queries,), 0.1)}, ends


def compare(example, ends, k, rule=None, share=1, seeds=8, least=None):
    """Closed queries have the reference's edges; returns what was found."""
    values = example["key_value"]
    least = values.amin(dim=1) if least is None else least
    given_ = example.get("lazy", values)
    got = edge_prune(
        example["topology"],
        ends,
        example["node_term"],
        given_,
        least,
        rule,
        example["margin"],
        k,
        seeds=seeds,
        share=share,
    )
    wanted = reference.edge_filter(example["topology"], example["node_term"], values, rule, example["margin"], k)
    for q in range(len(least)):
        mine = got.edge[got.indptr[q] : got.indptr[q + 1]].tolist()
        theirs = wanted[1][wanted[0][q] : wanted[0][q + 1]].tolist()
        assert mine == ([] if got.open[q] else theirs), q
    return got


@pytest.mark.parametrize("k", [1, 5, 50])
@pytest.mark.parametrize("seeds", [1, 8, 64])
def test_equals_scoring_everything(k, seeds):
    for seed in range(5):
        example, ends = drawn(seed)
        got = compare(example, ends, k, seeds=seeds)
        assert not got.open.any()


def test_reads_a_part_only():
    example, ends = drawn(3, nodes=3000, edges=30_000)
    example["node_term"] = example["node_term"] ** 0.2 * 2  # few nodes are near
    got = compare(example, ends, 5)
    assert not got.open.any()
    assert (got.read < 60_000 // 20).all()


def test_ties_at_the_threshold_and_all_nodes_equal():
    example, ends = drawn(1, coarse=True)
    compare(example, ends, 7)
    example["node_term"].fill_(1.0)
    example["key_value"].fill_(0.5)
    got = compare(example, ends, 7)
    assert (got.indptr.diff() == 400).all()  # every edge is tied with the k-th


def test_more_ties_than_the_buffer_holds_are_left_open():
    example, ends = drawn(1, nodes=100, edges=3000, coarse=True)
    example["node_term"].fill_(1.0)
    example["key_value"].fill_(0.5)
    assert compare(example, ends, 7).open.all()


def test_one_hub():
    nodes = 500
    spokes = torch.arange(1, nodes)
    topology, ends = topology_of(torch.zeros(nodes - 1), spokes, torch.zeros(nodes - 1), nodes, 1)
    g = torch.Generator().manual_seed(0)
    term = torch.rand(3, nodes, generator=g)
    term[0, 0], term[1, 0], term[2, 0] = 0.0, 2.0, 0.5
    example = {
        "topology": topology, "node_term": term, "key_value": torch.rand(3, 2, generator=g),
        "margin": torch.full((3,), 0.01),
    }  # fmt: skip
    assert not compare(example, ends, 4).open.any()


def test_penalties_self_loops_and_repeated_edges():
    example, ends = drawn(2)
    example["node_term"][:, 5:] = 9.75  # five nodes are matched
    compare(example, ends, 30)
    topology, ends = topology_of([0, 0, 0, 1, 1, 0], [0, 1, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0], 2, 1)
    tiny = {
        "topology": topology, "node_term": torch.tensor([[0.1, 0.2]]), "key_value": torch.tensor([[0.5, 3.0]]),
        "margin": torch.zeros(1),
    }  # fmt: skip
    for k in range(1, 7):
        got = compare(tiny, ends, k)
        assert not got.open.any()
        assert len(set(got.edge.tolist())) == got.edge.shape[0] >= k


def test_nodes_that_are_out_and_too_few_edges():
    example, ends = drawn(4)
    example["node_term"][:, 20:] = torch.inf
    compare(example, ends, 3)
    assert compare(example, ends, 399).open.all()  # fewer edges are left than k: nothing bounds the walk


def test_a_graph_without_nodes_is_left_open():
    topology, ends = topology_of([], [], [], 0, 1)
    got = edge_prune(topology, ends, torch.zeros(2, 0), torch.zeros(2, 2), torch.zeros(2), None, torch.zeros(2), 3)
    assert got.open.tolist() == [True, True]
    assert got.indptr.tolist() == [0, 0, 0]


def test_gives_up_what_would_read_too_much():
    example, ends = drawn(5, nodes=3000, edges=30_000)
    example["node_term"] = 1.0 + 0.01 * example["node_term"]
    got = compare(example, ends, 10, share=100, least=torch.zeros(5))
    assert got.open.all()
    assert (got.read <= 60_000 // 50).all()


@pytest.mark.parametrize("influence", [0.0, 0.4])
def test_weights_of_edges_and_lazy_distances(influence):
    g = torch.Generator().manual_seed(7)
    example, ends = drawn(6, keys=50)
    unit = lambda x: torch.nn.functional.normalize(x, dim=1)  # noqa: E731
    vectors, queries = unit(torch.randn(40, 16, generator=g)), unit(torch.randn(5, 16, generator=g))
    row = torch.cat([torch.randperm(40, generator=g), torch.full((10,), -1)]).int()
    raw = torch.full((5, 51), torch.inf)
    from tercet_kernels.cosine import pair_distances

    for q in range(5):
        raw[q, :40] = pair_distances(queries, vectors, torch.full((40,), q, dtype=torch.int32), row[:40].contiguous())
    example["key_value"] = raw
    rule = EdgeRule(torch.rand(400, generator=g).double(), torch.rand(400, generator=g).double(), influence, 6.5, False)
    least = raw.amin(dim=1) * (1 - influence)
    assert not compare(example, ends, 6, rule, least=least).open.any()
    example["lazy"] = KeyVectors(queries, vectors, row)
    assert not compare(example, ends, 6, rule, least=torch.zeros(5)).open.any()
    with pytest.raises(ValueError, match="rule"):
        compare(example, ends, 6, None, least=torch.zeros(5))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000), st.integers(1, 200), st.integers(0, 300), st.integers(1, 12), st.integers(1, 20),
    st.booleans(), st.floats(0, 0.5),
)  # fmt: skip
def test_any_graph(seed, nodes, edges, k, seeds, coarse, margin):
    example, ends = drawn(seed, nodes, edges, queries=3, keys=4, coarse=coarse)
    example["margin"] = torch.full((3,), margin)
    compare(example, ends, k, seeds=seeds)
