"""The demo graphs: six sentences, and the standard library read from its sources."""

import random
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from tercet.demo import sentences, stdlib
from tercet.demo.library import Library
from tercet.demo.questions import QUESTIONS
from tercet.demo.source import module_files, read_module
from tercet.errors import InvalidArgument, InvalidData, MissingDependency
from tercet.graph import Graph

NODE_COLUMNS = ["id", "name", "type", "text", "description"]
EDGE_COLUMNS = ["source", "target", "relation", "edge_text"]


@pytest.fixture(scope="module")
def library():
    return stdlib.tables()


@pytest.fixture(scope="module")
def edges(library):
    return set(zip(library[1]["source"], library[1]["relation"], library[1]["target"], strict=True))


def check_graph(nodes, edges):
    assert list(nodes) == NODE_COLUMNS
    assert list(edges) == EDGE_COLUMNS
    assert len({len(column) for column in nodes.values()}) == 1
    assert len({len(column) for column in edges.values()}) == 1
    ids = set(nodes["id"])
    assert len(ids) == len(nodes["id"])
    assert set(edges["source"]) | set(edges["target"]) <= ids
    assert None not in edges["relation"]
    triples = list(zip(edges["source"], edges["relation"], edges["target"], strict=True))
    assert len(set(triples)) == len(triples)
    assert not [t for t in triples if t[0] == t[2]]


def test_six_sentences():
    nodes, edges = sentences.tables()
    check_graph(nodes, edges)
    assert Counter(nodes["type"]) == {"DocumentChunk": 6, "TextSummary": 6, "Entity": 11, "EntityType": 7}
    assert len(edges["source"]) >= 48
    assert "Bob sends Cognee feedback to Alice." in nodes["text"]
    for kind, text, description in zip(nodes["type"], nodes["text"], nodes["description"], strict=True):
        assert bool(text) == (kind in ("DocumentChunk", "TextSummary"))
        assert bool(description) == (kind in ("Entity", "EntityType"))
    assert {None} < set(edges["edge_text"])


def test_six_sentences_name_only_what_they_say():
    """Each entity of a chunk occurs in its sentence, at least by one word."""
    for sentence, _, entities in sentences.DOCUMENTS:
        words = sentence.lower().replace("weekly", "weekly meeting")
        assert all(any(word in words for word in entity.split()) for entity in entities)


def test_both_graphs_can_be_taken(library):
    graph = Graph.from_tables(*sentences.tables())
    assert graph.num_edges == len(sentences.tables()[1]["source"])
    graph = Graph.from_tables(*library)
    assert graph.num_nodes == len(library[0]["id"])
    assert graph.num_edges == len(library[1]["source"])


def test_library_is_of_demo_size(library):
    nodes, edges = library
    check_graph(nodes, edges)
    assert 7_000 < len(nodes["id"]) < 13_000
    assert 20_000 < len(edges["source"]) < 50_000
    assert set(nodes["type"]) == {"Module", "Class", "Exception", "Function", "Method"}
    assert set(edges["relation"]) == set(stdlib.RELATIONS)
    assert set(nodes["text"]) == {None}
    assert all(d and len(d) <= 300 and d == " ".join(d.split()) for d in nodes["description"])
    assert nodes["id"] == sorted(nodes["id"])


def test_library_names_are_those_of_programs(library):
    names = dict(zip(library[0]["id"], library[0]["name"], strict=True))
    types = dict(zip(library[0]["id"], library[0]["type"], strict=True))
    assert names["asyncio.tasks.wait_for"] == "asyncio.wait_for"
    assert names["builtins.str.split"] == "str.split"
    assert names["json.decoder.JSONDecoder"] == "json.JSONDecoder"
    assert names["genericpath.exists"] == "os.path.exists"
    assert names["_collections_abc.Mapping"] == "collections.abc.Mapping"
    assert names["unittest.case.TestCase.assertEqual"] == "unittest.TestCase.assertEqual"
    assert types["json.decoder.JSONDecodeError"] == types["builtins.ValueError"] == "Exception"
    assert types["json.decoder.JSONDecoder"] == "Class"
    assert types["time"] == "Module"
    skipped = {"test", "tests", "idlelib", "lib2to3"}
    assert not [n for n, kind in types.items() if kind == "Module" and skipped & set(n.split("."))]


def test_library_edges_are_true(edges):
    assert ("asyncio.tasks.wait_for", "raises", "builtins.TimeoutError") in edges or sys.version_info >= (3, 12)
    assert ("json.decoder.JSONDecodeError", "inherits", "builtins.ValueError") in edges
    assert ("json.decoder.JSONDecoder.raw_decode", "raises", "json.decoder.JSONDecodeError") in edges
    assert ("asyncio", "reexports", "asyncio.tasks.wait_for") in edges
    assert ("threading", "defines", "threading.Thread") in edges
    assert ("threading.Thread", "defines", "threading.Thread.join") in edges
    assert ("shutil", "imports", "zipfile") in edges
    assert ("shutil.copyfile", "raises", "shutil.SameFileError") in edges
    assert ("collections.OrderedDict", "inherits", "builtins.dict") in edges
    assert ("json.loads", "mentions", "json.decoder.JSONDecoder") in edges


def test_edge_texts_name_both_ends(library):
    nodes, edges = library
    names = dict(zip(nodes["id"], nodes["name"], strict=True))
    for row in random.Random(3).sample(range(len(edges["source"])), 300):
        text = edges["edge_text"][row]
        assert names[edges["source"][row]] in text
        assert names[edges["target"][row]] in text


def test_few_modules_and_progress():
    calls = []
    nodes, edges = stdlib.tables(max_modules=40, progress=lambda done, total: calls.append((done, total)))
    check_graph(nodes, edges)
    assert calls == [(i, 40) for i in range(1, 41)]
    assert len(nodes["id"]) < 3_000
    assert stdlib.tables(max_modules=40) == (nodes, edges)


def test_nothing_is_imported():
    before = set(sys.modules)
    stdlib.tables(max_modules=15)
    assert set(sys.modules) == before


def test_no_sources(monkeypatch, tmp_path):
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(MissingDependency, match="standard library"):
        stdlib.tables()


def test_embedding_texts(library):
    ids, texts = stdlib.embedding_texts(library[0])
    assert len(texts) == len(ids) > 5000
    assert max(map(len, texts)) <= 80
    assert texts[ids.index("asyncio.tasks.wait_for")].startswith("asyncio.wait_for: Wait for the single Future or")
    made_up = {"id": ["a.B.c"], "name": ["a.B.c"], "type": ["Method"], "description": ["Method c(x) of a.B."]}
    assert stdlib.embedding_texts(made_up) == ([], [])


def test_questions(library):
    questions = stdlib.questions(1000, 5, library)
    assert len(set(questions)) == 1000
    assert questions == stdlib.questions(1000, 5, library)
    assert questions != stdlib.questions(1000, 6, library)
    assert all(q.endswith("?") and len(q) < 250 for q in questions)
    assert sum(q.startswith("how do I") for q in questions) > 300
    assert len(set(QUESTIONS)) == 12
    assert stdlib.questions(0, 5, library) == []


def test_more_questions_than_there_are(library):
    with pytest.raises(InvalidArgument, match=r"yields 0 to \d+ questions, got 1000000"):
        stdlib.questions(1_000_000, 5, library)


PACKAGE = {
    "tools/__init__.py": '"""Tools."""\n__all__ = ["run"]\nfrom .core import *\nfrom ._base import Base\n',
    "tools/core.py": '''
import os.path as osp
from . import _base
from ._base import Base, Broken as Bad
__all__ = ["run"]

class Worker(_base.Base):
    """Works."""
    def __init__(self):
        self._check()
    def _check(self):
        raise Bad("no")
    def start(self):
        return self.stop() or super().stop()
    def stop(self):
        """End it, see `Worker.start`."""

def run(worker, osp=None):
    """Run a worker.

    Calls `start()` of a Worker.
    """
    try:
        worker.start()
        osp.join("a")
        return Worker()
    except (OSError, Bad):
        raise
''',
    "tools/_base.py": """
__name__ = "tools.base"
class Base:
    def stop(self): "Stop."
class Broken(ValueError): "Broken."
""",
    "tools/tests/test_core.py": "raise SystemExit\n",
    "tools/__main__.py": "raise SystemExit\n",
}


@pytest.fixture
def package(tmp_path):
    for name, text in PACKAGE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {name: read_module(name, path) for name, path in module_files(tmp_path, ["tools", "absent"]).items()}


def test_reading_a_package(package):
    assert list(package) == ["tools", "tools._base", "tools.core"]
    core = package["tools.core"]
    assert core.bindings == {
        "osp": "os.path",
        "_base": "tools._base",
        "Base": "tools._base.Base",
        "Bad": "tools._base.Broken",
    }
    assert core.exported == {"run"}
    assert package["tools"].stars == ["tools.core"]
    run = core.definitions["run"]
    assert run.signature == "run(worker, osp)"
    assert run.calls == ("Worker",)  # calls on parameters mean nothing in the module
    assert run.handles == ("OSError", "Bad")
    assert run.raises == ()


def test_names_of_a_package(package):
    library = Library(package)
    assert library.resolve(package["tools"], "run") == "tools.core.run"
    assert library.locate("tools.run") == "tools.core.run"
    assert library.resolve(package["tools.core"], "Worker.stop") == "tools.core.Worker.stop"
    assert library.resolve(package["tools.core"], "osp.join") is None
    assert library.resolve(package["tools.core"], "print") == "builtins.print"
    assert library.lineage("tools.core.Worker") == ["tools.core.Worker", "tools._base.Base"]
    assert library.is_exception("tools._base.Broken")
    assert not library.is_exception("tools.core.Worker")
    names = library.public_names()
    assert names["tools.core.run"] == "tools.run"
    assert names["tools._base.Broken"] == "tools.base.Broken"
    assert names["tools.core.Worker.start"] == "tools.core.Worker.start"
    assert names["builtins.ValueError"] == "ValueError"


def test_circular_names_end(tmp_path):
    (tmp_path / "one.py").write_text("from two import name\nother = other\nclass A(A): pass\n")
    (tmp_path / "two.py").write_text("from one import name\nfrom one import *\n")
    modules = {n: read_module(n, p) for n, p in module_files(tmp_path, ["one", "two"]).items()}
    library = Library(modules)
    assert library.resolve(modules["one"], "name") is None
    assert library.resolve(modules["one"], "other") is None
    assert library.lineage("one.A") == ["one.A"]


def test_broken_source_is_named(tmp_path):
    path = Path(tmp_path) / "bad.py"
    path.write_text("def f(:\n")
    with pytest.raises(InvalidData, match=r"bad\.py: not valid Python"):
        read_module("bad", path)
