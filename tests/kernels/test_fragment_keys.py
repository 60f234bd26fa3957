"""`fragment_keys`: the keys of `induced`'s edges, or word that they are many."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.prepare import topology_of
from bench.workloads import make
from tercet_kernels.fragment_keys import fragment_keys
from tercet_kernels.induced import induced


def scene(seed, nodes, edges, queries, candidates, unkeyed=False):
    topology = topology_of(make(nodes, edges, 4, "uniform", relation_texts=7, seed=seed, num_queries=1))
    g = torch.Generator().manual_seed(seed)
    if unkeyed:
        topology = topology._replace(key=torch.where(torch.rand(edges, generator=g) < 0.5, -1, topology.key))
    node = torch.cat([torch.randperm(nodes + 3, generator=g)[:candidates].int() for _ in range(queries)])
    return topology, torch.arange(queries + 1) * candidates, node


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 999), st.integers(2, 40), st.integers(0, 1), st.integers(1, 9), st.integers(0, 30),
    st.integers(0, 12), st.booleans(),
)  # fmt: skip
def test_they_are_those_of_the_edges(seed, nodes, dense, queries, candidates, most, unkeyed):
    topology, indptr, node = scene(seed, nodes, nodes * (1 + dense) // 2, queries, min(candidates, nodes + 3), unkeyed)
    got = fragment_keys(topology, indptr, node, most)
    bounds, edge = induced(topology, indptr, node)
    for q in range(queries):
        keys = topology.key[edge[bounds[q] : bounds[q + 1]].long()]
        keys = keys[keys >= 0]
        different = sorted(set(keys.tolist()))
        mine = got.key[got.indptr[q] : got.indptr[q + 1]]
        mine_nodes = node[indptr[q] : indptr[q + 1]].long()
        entries = topology.oriented_indptr.diff()[mine_nodes[mine_nodes < nodes]].sum()
        too_much = len(different) > most or len(keys) > 4 * most or int(entries) > 64 * most
        assert bool(got.many[q]) == too_much
        assert mine.tolist() == ([] if too_much else different)


def test_long_lists_are_many():
    topology, indptr, node = scene(0, 50, 900, 2, 50)
    got = fragment_keys(topology, indptr, node, 10)  # 7 keys, but 900 entries of lists, where 640 are allowed
    assert got.many.all()
    assert got.indptr.tolist() == [0, 0, 0]


def test_wrong_arguments_are_named():
    topology, indptr, node = scene(0, 5, 5, 1, 3)
    with pytest.raises(ValueError, match="node"):
        fragment_keys(topology, indptr, node.long(), 3)
    with pytest.raises(ValueError, match="most"):
        fragment_keys(topology, indptr, node, -1)
