"""Labels of nodes and types of relations."""

import numpy as np
import pyarrow as pa
import pytest

from tercet import Graph
from tercet.errors import InvalidArgument, InvalidData
from tercet.labels import fold_ascii, label_mask, labels_of, relation_mask

NO_EDGES = {"source": [], "target": [], "relation": []}
LISTS = [["B", "A"], ["A"], [], None, ["a", "A", "a"], ["É", None, ""], ["C D"]]


def of(lists, **options):
    return Graph.from_tables(
        {"id": list("abcdefghij")[: len(lists)], "labels": lists}, NO_EDGES, order="input", **options
    )


def rows(mask):
    assert mask.dtype == bool
    return np.flatnonzero(mask).tolist()


def test_labels_from_lists():
    graph = of(LISTS)
    labels = labels_of(graph)
    assert labels.names.to_pylist() == ["A", "B", "C D", "a", "É"]
    held = [labels.names.take(pa.array(m)).to_pylist() for m in np.split(labels.member, labels.indptr[1:-1])]
    assert held == [["A", "B"], ["A"], [], [], ["A", "a"], ["É"], ["C D"]]
    assert (labels.indptr.dtype, labels.member.dtype) == (np.int64, np.int32)
    assert labels_of(graph) is labels


def test_labels_from_types():
    graph = Graph.from_tables({"id": [3, 1, 2], "type": ["X", None, ""]}, NO_EDGES)
    labels = labels_of(graph)
    assert labels.names.to_pylist() == ["X"]
    assert labels.indptr.tolist() == [0, 0, 0, 1]  # in the order of the ids


@pytest.mark.parametrize("lists", [[], [None, None], [[], []]])
def test_no_labels_at_all(lists):
    graph = of(lists)
    assert len(labels_of(graph).names) == 0
    assert rows(label_mask(graph, ["A"], mode="any")) == rows(label_mask(graph, ["A"], mode="all")) == []


def test_labels_that_are_no_lists():
    with pytest.raises(InvalidData, match=r"nodes\.labels"):
        labels_of(of(["A", "B"]))


@pytest.mark.parametrize(
    ("names", "mode", "fold", "wanted"),
    [
        (["A"], "any", False, [0, 1, 4]), (["A", "B"], "any", False, [0, 1, 4]), (["A", "B"], "all", False, [0]),
        (["B", "A", "B"], "all", False, [0]), (["a"], "all", False, [4]), (["a"], "all", True, [0, 1, 4]),
        (["a", "A"], "all", True, [0, 1, 4]), (["a", "b"], "all", True, [0]), (["A", "nope"], "all", True, []),
        (["A", "nope"], "any", True, [0, 1, 4]), (["é"], "any", True, []), (["É"], "any", True, [5]),
        (["c d"], "any", True, [6]), ([], "any", False, []), ([], "all", False, list(range(7))),
        ([""], "any", True, []),
        (("A",), "any", False, [0, 1, 4]), (np.array(["B"]), "any", False, [0]),
    ],
)  # fmt: skip
def test_masks(names, mode, fold, wanted):
    assert rows(label_mask(of(LISTS), names, mode=mode, fold_case=fold)) == wanted


@pytest.mark.parametrize(("names", "mode"), [("A", "any"), ([1], "any"), ([None], "all"), (7, "any"), (["A"], "one")])
def test_what_is_no_list_of_labels(names, mode):
    with pytest.raises(InvalidArgument):
        label_mask(of(LISTS), names, mode=mode)


def test_folding_leaves_other_letters():
    assert fold_ascii("ABÉß Ⓐz") == "abÉß Ⓐz"


@pytest.fixture(scope="module")
def related():
    labels = ["r", "R", None, "s"]
    return Graph.from_tables({"id": list("ab")}, {"source": ["a"] * 4, "target": ["b"] * 4, "relation": labels})


class TestRelations:
    @pytest.mark.parametrize(
        ("only", "shut", "wanted"),
        [
            (["r"], None, {"r"}), (["r", "nope"], [], {"r"}), (["nope"], None, set()), (None, ["r"], {"R", "s", None}),
            (["r", "s"], ["R"], {"r", "s"}), ([], ["nope"], {"r", "R", "s", None}), (np.array(["s"]), None, {"s"}),
        ],
    )  # fmt: skip
    def test_masks(self, related, only, shut, wanted):
        mask = relation_mask(related, only, shut)
        assert mask.shape == (4,)
        walked = np.flatnonzero(mask[related.relation.numpy()])
        assert {related.relation_column[int(e)].as_py() for e in walked} == wanted

    def test_no_restriction(self, related):
        assert relation_mask(related, None, None) is None
        assert relation_mask(related, [], ()) is None

    @pytest.mark.parametrize(("only", "shut"), [("r", None), (None, "r"), ([1], None), (["r", "s"], ["s"]), (3, None)])
    def test_what_is_refused(self, related, only, shut):
        with pytest.raises(InvalidArgument, match="rel_types"):
            relation_mask(related, only, shut)
