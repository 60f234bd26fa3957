"""Requests that would make a batch much slower for the others have batches of their own."""

import numpy as np
import pytest

from tercet.rules import COGNEE, NATIVE
from tercet.serve.forms import Odd, each_of
from tercet.serve.requests import read_call

VECTOR = np.ones(4, np.float32)


def group(**given):
    return read_call(NATIVE, "recall", {"vectors": VECTOR, **given}, None, None).group


def test_counts_of_one_size_share_a_batch():
    assert group() == group(top_k=5) == group(top_k=64, wide_search_top_k=256) == group(wide_search_top_k=None)
    assert group(wide_search_top_k=1000) == group(wide_search_top_k=1024) != group()
    assert group(wide_search_top_k=5000) != group(wide_search_top_k=1000)
    assert group(top_k=1000) not in (group(), group(wide_search_top_k=1000))
    sizes = [group(wide_search_top_k=n) for n in range(1, 5000, 7)]
    assert len(set(sizes)) == 4  # up to 256, 1024, 4096 and above: a factor of four each


def test_a_list_is_as_large_as_its_largest_query():
    matrix = np.ones((3, 4), np.float32)
    assert group(vectors=matrix, wide_search_top_k=[5, None, 5000]) == group(wide_search_top_k=5000)
    assert group(vectors=matrix, wide_search_top_k=[5, None, 7]) == group()


def test_filters_share_a_batch_with_none_unless_they_change_the_way():
    assert group(filter=["a"]) == group()
    assert group(filter=["a"], projection="incident") != group(projection="incident")


@pytest.mark.parametrize("count", [0, -3, True, 2.0, "5"])
def test_a_count_that_will_be_refused_has_a_call_of_its_own(count):
    with pytest.raises(Odd):
        each_of("top_k", count, 1)
    assert read_call(NATIVE, "recall", {"vectors": VECTOR, "top_k": count}, None, None).stacked is None


def test_modes_in_which_lists_differ_share_nothing():
    one, other = (read_call(COGNEE, "recall", {"vectors": VECTOR}, None, None) for _ in range(2))
    assert one.stacked is None
    assert one.group != other.group
