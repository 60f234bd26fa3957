"""The same evaluation on a local cluster of two actors, to the byte; and partitions that are lost."""

from pathlib import Path

import pytest

pytest.importorskip("ir_measures")
pytest.importorskip("scipy")
pytest.importorskip("ray.data", reason="needs Ray")

import tercet
from tercet.errors import InvalidArgument, InvalidData
from tests.evaluate.small import QRELS, QUERIES, engine, toy
from tests.evaluate.test_job import rankings, same

pytestmark = pytest.mark.slow  # a cluster takes some 20 s to come up

MANY = {f"q{i}": text for i, text in enumerate([*QUERIES.values()] * 3)}
JUDGED = {f"q{i}": ids for i, ids in enumerate([*QRELS.values()] * 3)}
MODES = {"recall": {"projection": "full"}, "narrow": {"verb": "recall", "wide_search_top_k": 2},
         "mh": {"verb": "passage_search", "mode": "multihop"}}  # fmt: skip
OPTIONS = {"prefix": "p:", "k": 3, "resamples": 100, "partition": 2}


@pytest.fixture(scope="module")
def cluster():
    import ray

    # two actors run at a time; pytest keeps logged tracebacks, which keep actors that raised, and their processors
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def store(tmp_path):
    engine(None).save(tmp_path / "g.store")
    return tmp_path / "g.store"


def test_results_are_the_same_to_the_byte(cluster, store, tmp_path):
    made = tercet.open(store, encoder=toy)
    alone = tercet.evaluate(made, MANY, JUDGED, MODES, out=tmp_path / "alone", **OPTIONS)
    spread = tercet.evaluate(made, MANY, JUDGED, MODES, out=tmp_path / "spread", ray="auto", **OPTIONS)
    same(alone, spread)
    assert rankings(tmp_path / "alone") == rankings(tmp_path / "spread")
    assert "6 partitions of 2 queries, 0 are there already" in (tmp_path / "spread" / "log.txt").read_text()


def test_lost_partitions_are_asked_for_again(cluster, store, tmp_path):
    made = tercet.open(store, encoder=toy)
    marks = str(tmp_path)

    def once(engine_, batch, k):  # raises what isn't taken for a mode's failure, the first time for one partition
        mark = Path(marks) / "mark"
        if len(batch) == 2 and "gamma" in (batch.text[1] or "") and not mark.exists():
            mark.touch()
            raise KeyError("lost")
        return engine_.semantic_search(vectors=batch.embedding, k=k, filter_labels=["DocumentChunk"])

    got = tercet.evaluate(made, MANY, JUDGED, {"once": once}, out=tmp_path / "r", ray="auto", **OPTIONS)
    assert (tmp_path / "mark").exists()
    assert got.evaluations["once"].means["R@5"] == 1.0
    assert not got.evaluations["once"].failed


def test_what_stays_lost_is_named(cluster, store, tmp_path):
    def never(engine_, batch, k):
        raise KeyError("for ever")

    made, options = tercet.open(store, encoder=toy), OPTIONS | {"partition": 99}
    with pytest.raises(InvalidData, match=r"1 partitions were lost in 3 rounds \(0\): .*for ever"):
        tercet.evaluate(made, MANY, JUDGED, {"never": never}, out=tmp_path / "s", ray="auto", **options)
    assert not (tmp_path / "s" / "summary.json").exists()


def test_the_store_is_what_actors_open(cluster, store):
    with pytest.raises(InvalidArgument, match="expected an engine as its store has it"):
        tercet.evaluate(engine(), MANY, JUDGED, MODES, ray="auto", **OPTIONS)
    made = tercet.open(store, encoder=toy)
    made.delete(nodes=["n:alpha"])
    with pytest.raises(InvalidArgument, match="save it first"):
        tercet.evaluate(made, MANY, JUDGED, MODES, ray="auto", **OPTIONS)
