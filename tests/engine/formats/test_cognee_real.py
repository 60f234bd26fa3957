"""A store that Cognee itself made answers here as it does there; needs an environment with cognee 1.6."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tercet import Engine
from tercet.formats import cognee_store

PYTHON = os.environ.get("TERCET_BENCH_COGNEE_PYTHON")
SCRIPT = Path(__file__).with_name("cognee_real.py")


@pytest.mark.skipif(PYTHON is None, reason="TERCET_BENCH_COGNEE_PYTHON names no Python with cognee")
def test_a_store_of_cognee_answers_the_same(tmp_path):
    pytest.importorskip("lancedb", reason="lancedb isn't installed")
    pytest.importorskip("ladybug", reason="ladybug isn't installed")
    subprocess.run([PYTHON, str(SCRIPT), str(tmp_path / "made")], check=True, capture_output=True, timeout=300)
    told = json.loads((tmp_path / "made" / "answers.json").read_text())
    store = cognee_store.load(tmp_path / "made" / "system")
    graph = store.graph()
    engine = Engine(graph, store.searched(graph), device="cpu", mode="cognee")
    have = [c.name for c in engine.collections]
    names = [name for name in told["collections"] if name in have]  # of two hits on a node the last one counts
    for answer in told["answers"]:
        vector = np.array(told["vectors"][answer["query"]], np.float32)  # one query: a batch has no limit in Cognee
        got = engine.recall(vectors=vector, collections=names, **answer["settings"])[0]
        every = engine.recall(vectors=vector, collections=names, **{**answer["settings"], "top_k": 10_000})[0]
        score = {(t.source, t.relation, t.target): t.score for t in every.triplets}
        theirs = [score[tuple(t)] for t in answer["triplets"]]
        # Cognee's order among equal scores is that of its database's answer, which nothing fixes
        np.testing.assert_allclose(theirs, got.scores, atol=1e-6, err_msg=answer["query"])
        apart = [i for i, s in enumerate(theirs) if list(score.values()).count(s) == 1]
        ours = [[t.source, t.relation, t.target] for t in got.triplets]
        assert [ours[i] for i in apart] == [answer["triplets"][i] for i in apart]
