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
    names = [c.name for c in engine.collections if c.name in told["collections"]]
    for answer in told["answers"]:
        vector = np.array([told["vectors"][answer["query"]]], np.float32)
        got = engine.recall(vectors=vector, collections=names, **answer["settings"])[0]
        found = [[t.source, t.relation, t.target] for t in got.triplets]
        assert found == answer["triplets"], answer["query"]
