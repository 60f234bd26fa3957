"""Formats are known by what a folder holds."""

import pytest

from tercet.errors import InvalidArgument
from tercet.formats.detect import detect
from tests.engine.formats import test_autoschemakg, test_graphrag, test_hipporag, test_lightrag, test_nano_graphrag
from tests.engine.formats.importing import real
from tests.engine.formats.test_grafito import write_file

REAL = {
    "ms_graphrag_dulce_v3": "graphrag", "ms_graphrag_verbs_v3": "graphrag", "ms_graphrag_vectors": "graphrag",
    "ms_graphrag_dulce_v0": "graphrag", "ms_graphrag_sengoku_ja": "graphrag", "lightrag_christmas_carol": "lightrag",
    "lightrag_v14_covid": "lightrag", "nano_graphrag_christmas_carol": "nano-graphrag",
    "autoschemakg_dulce": "autoschemakg",
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_real(name):
    assert detect(real(name)) == REAL[name]


def test_by_hand(tmp_path):
    made = {
        "graphrag": test_graphrag.write, "lightrag": test_lightrag.write, "autoschemakg": test_autoschemakg.write,
        "hipporag": test_hipporag.write,
        "nano-graphrag": lambda f: test_lightrag.write(f, test_nano_graphrag.GRAPHML),
        "openie": lambda f: [(f / n).touch() for n in ("passages.jsonl", "openie.jsonl.gz")],
        "tables": lambda f: [(f / n).touch() for n in ("nodes.csv", "edges.jsonl.gz")],
        "cognee": lambda f: (f / "databases" / "cognee.lancedb").mkdir(parents=True),
    }  # fmt: skip
    for name, make in made.items():
        (tmp_path / name).mkdir()
        make(tmp_path / name)
        assert detect(tmp_path / name) == name
    assert detect(write_file(tmp_path / "graph.db")) == "grafito"


def test_nothing_fits(tmp_path):
    with pytest.raises(InvalidArgument, match="no such file or folder"):
        detect(tmp_path / "absent")
    with pytest.raises(InvalidArgument, match=r"expected one of graphrag, .*; found nothing"):
        detect(tmp_path)
    for i in range(13):
        (tmp_path / f"{i:02}.txt").touch()
    with pytest.raises(InvalidArgument, match=r"found 00.txt, .*, 11.txt and 1 more"):
        detect(tmp_path)
    (tmp_path / "other.db").write_bytes(b"SQLite format 3\0 cut")
    with pytest.raises(InvalidArgument, match="found a file of 20 bytes"):
        detect(tmp_path / "other.db")
