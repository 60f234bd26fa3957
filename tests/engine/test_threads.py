"""One number of threads, the work that is worth a second one, and what an engine tells of itself."""

import subprocess
import sys
from collections.abc import Iterator

import numba
import pytest
import torch

import tercet
from tercet.errors import InvalidArgument
from tercet.threads import cores
from tercet.workers import Workers
from tercet_kernels import _threads
from tercet_kernels._threads import threads
from tests.engine.small import QUERY, engine, graph, names, relations

TWO = pytest.mark.skipif(min(cores(), numba.config.NUMBA_NUM_THREADS) < 2, reason="needs two cores")


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    """The number of threads is that of the process: put back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "2", None, 10_000])
def test_a_number_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgument, match=f"threads: expected an integer from 1 to {cores()}"):
        tercet.set_threads(wrong)  # type: ignore[arg-type]


@TWO
def test_one_number_governs_torch_and_the_kernels() -> None:
    for count in (2, 1):
        tercet.set_threads(count)
        assert torch.get_num_threads() == count
        assert threads(100) == count
        assert numba.get_num_threads() == count
        assert Workers().count == count


@TWO
def test_small_work_stays_in_one_thread() -> None:
    tercet.set_threads(2)
    assert threads(100, _threads.WORTH - 1) == 1
    assert numba.get_num_threads() == 1
    assert threads(100, _threads.WORTH) == 2
    assert numba.get_num_threads() == 2
    assert threads(1, 1e12) == 1
    assert threads(0) == 1


FAISS = """
import torch
{first}
import tercet
tercet.set_threads(1)
import faiss
from tercet.index import faiss_cpu
with faiss_cpu.threads(faiss):
    print(torch.get_num_threads(), faiss.omp_get_max_threads())
"""


@pytest.mark.parametrize("first", ["import faiss", ""])
def test_faiss_follows_wherever_it_is_imported(first: str) -> None:
    pytest.importorskip("faiss")
    ran = subprocess.run([sys.executable, "-c", FAISS.format(first=first)], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["1", "1"]


@TWO
def test_workers_follow_the_setting() -> None:
    workers = Workers()
    for count in (1, 2, 1):
        tercet.set_threads(count)
        made = list(workers.map(lambda x: (x * x, torch.get_num_threads()), [(i, i) for i in range(20)]))
        assert made == [(i, (i * i, 1)) for i in range(20)]
        assert torch.get_num_threads() == count


def test_an_engine_tells_what_it_is_made_of() -> None:
    made = engine(graph([("a", "r", "b"), ("b", "s", "c")]), *(names({"a": 0.1, "b": 0.2}), relations({"r": 0.3})))
    info = made.info()
    assert (info.mode, info.device, info.nodes, info.edges, info.relations) == ("native", str(made.device), 3, 2, 2)
    assert [(c.name, c.kind, c.rows, c.index) for c in info.collections] == [
        ("Entity_name", "node", 2, "exact"), ("EdgeType_relationship_name", "relation", 1, "exact")
    ]  # fmt: skip
    # 4 int32 columns of 2 edges, 3 adjacencies, 2 float64 weights a node and an edge, offsets of the node sets
    assert info.graph_bytes == 4 * 8 + 3 * (32 + 8 + 8) + 2 * 24 + 2 * 16 + 32
    assert info.collections[0].bytes >= 2 * made.dimension * 4
    assert (info.threads, info.encoder) == (torch.get_num_threads(), None)
    assert info.versions["torch"].startswith(torch.__version__.split("+")[0])
    assert info.kernels["merge"] == ("numba" if made.device.type == "cpu" else "torch")
    assert made.recall(vectors=QUERY)[0].status == "ok"
    for part in ("3 nodes, 2 edges", "Entity_name: 2 x", "threads", "merge"):
        assert part in repr(info)
