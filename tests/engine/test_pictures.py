"""Pictures: captions and colours, the same layout each time, and text that no format lets through as code."""

import base64
import hashlib
import io
import itertools
import json
import math
import re
import tarfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.errors import InvalidArgument, MissingDependency
from tercet.pictures import export_graph, grafito, render_graph
from tercet.pictures.drawing import KINDS, draw, plain
from tercet.pictures.fetch import FetchError, fetch, unpack
from tercet.pictures.layout import LARGEST, SPACE, layout
from tercet.pictures.page import embed

GOLDEN = Path(__file__).parents[2].parent / "shared" / "grafito" / "golden" / "net_export"
TEXT_BACKENDS = ["graphml", "mermaid", "dot", "d2"]
EVIL = '</script><img src=x onerror=alert(1)> "]; %% `x` ${y} \\N &lt; {{data}} |} \r\n\x00\x1b\u2028\ud800'


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stand-in for Cytoscape.js, so that pages can be made in a bare checkout."""
    file = tmp_path / "library.js"
    file.write_text("var cytoscape;")
    monkeypatch.setattr("tercet.pictures.page.LIBRARY", file)


def small() -> nx.MultiDiGraph:
    graph = nx.MultiDiGraph()
    graph.add_node(
        1, labels=["Work", "Book"], properties={"name": "Emma", "year": 1815}, uri="urn:1", score=0.5, hops=0
    )
    graph.add_node("1", labels=[], properties={}, uri=None, score=None, hops=2, text="A long\n text.")
    graph.add_node(3, labels=["Person"], properties={"name": "Jane"}, title="Jane Austen", score=0.1, hops=0)
    graph.add_edge(3, 1, key=7, id=7, type="wrote", properties={"in": 1815}, uri=None, text="wrote it", score=0.25)
    graph.add_edge(3, 1, key=8, id=8, type="revised", properties={}, uri=None)
    graph.add_edge("1", "1", key=9, id=9, type="self", properties={}, uri=None)
    return graph


def evil() -> nx.MultiDiGraph:
    graph = nx.MultiDiGraph()
    for node in (EVIL, 2):
        graph.add_node(node, labels=[EVIL], properties={EVIL: EVIL, "name": EVIL}, title=EVIL, text=EVIL, uri=EVIL)
    graph.add_edge(EVIL, 2, id=EVIL, type=EVIL, text=EVIL, properties={EVIL: [EVIL]})
    return graph


def test_a_drawing_is_flat_lists_in_graph_order() -> None:
    drawing = draw(small(), title="Who?")
    assert drawing.id == ["1", "1", "3"]
    assert drawing.caption == ["Emma", "A long text.", "Jane Austen"]
    assert drawing.labels == [("Book", "Work"), (), ("Person",)]
    assert drawing.score == [0.5, None, 0.1]
    assert drawing.hops == [0, 2, 0]
    assert drawing.size() == [1.0, 0.0, 0.25]
    assert (drawing.source, drawing.target) == ([1, 2, 2], [1, 0, 0]) or (drawing.source, drawing.target) == (
        [2, 2, 1],
        [0, 0, 1],
    )
    wrote = drawing.relation.index("wrote")
    assert drawing.edge_id[wrote] == "7"
    assert drawing.edge_text[wrote] == "wrote it"
    assert drawing.edge_score[wrote] == 0.25
    assert drawing.edge_properties[wrote] == {"in": 1815}
    assert [drawing.label_groups[i].name for i in drawing.by_label] == ["Book", "no label", "Person"]
    assert [drawing.hop_groups[i].name for i in drawing.by_hops] == ["seed", "2 hops", "seed"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"node_label": "id"}, ["1", "1", "3"]),
        ({"node_label": "name"}, ["Emma", "1", "Jane"]),
        ({"node_label": "labels"}, ["Book:Work", "1", "Person"]),
        ({"node_label": "label_and_name"}, ["Book:Work Emma", "1", "Person Jane"]),
        ({"label_attr": "year"}, ["1815", "1", "3"]),
        ({"label_attr": "hops"}, ["0", "2", "0"]),
        ({"label_fn": lambda node, data: f"{node!r}:{data['hops']}"}, ["1:0", "'1':2", "3:0"]),
    ],
)
def test_captions_as_asked_for(options: dict[str, Any], expected: list[str]) -> None:
    assert draw(small(), **options).caption == expected


def test_what_can_become_a_graph_is_taken() -> None:
    class Answer:
        def to_networkx(self) -> nx.MultiDiGraph:
            return small()

    assert draw(Answer()).caption == draw(small()).caption
    assert draw(nx.path_graph(3)).source == [0, 1]  # a simple graph
    with pytest.raises(InvalidArgument, match=r"graph: expected a networkx graph.*got list"):
        draw([1, 2])


def test_the_commonest_labels_have_colours_of_their_own() -> None:
    graph = nx.MultiDiGraph()
    for i in range(30):
        graph.add_node(i, labels=[f"L{min(i, 11):02d}"])
    drawing = draw(graph)
    names = [group.name for group in drawing.label_groups]
    assert names == ["L11", *(f"L{i:02d}" for i in range(len(KINDS) - 1)), "other labels"]
    assert len({group.light for group in drawing.label_groups}) == len(names)
    assert [names[i] for i in drawing.by_label][7:12] == ["other labels"] * 4 + ["L11"]


def test_scores_that_are_no_numbers_are_unknown() -> None:
    graph = nx.Graph()
    for i, score in enumerate([math.nan, math.inf, np.float32(0.5), 2, None]):
        graph.add_node(i, score=score)
    assert draw(graph).score == [None, None, 0.5, 2.0, None]


json_like: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
    max_leaves=8,
)


@given(json_like)
def test_plain_values_pass_through_json_unchanged(value: Any) -> None:
    made = plain(value)
    assert json.loads(json.dumps(made, allow_nan=False).encode()) == made


def test_plain_takes_arrays_sets_and_large_numbers() -> None:
    made = plain({"a": np.arange(2), "s": {2, 1}, "big": 2**60, "nan": math.nan, "f": np.float32(0.5), 3: b"x"})
    assert made == {"a": [0, 1], "s": [1, 2], "big": str(2**60), "nan": "nan", "f": 0.5, "3": "b'x'"}


# ---- layout


def spots(graph: nx.Graph) -> np.ndarray:
    ends = np.array(list(graph.edges)).reshape(-1, 2)
    return layout(len(graph), ends[:, 0].tolist(), ends[:, 1].tolist(), [None] * len(graph))


def test_layout_is_the_same_each_time() -> None:
    graph = nx.barabasi_albert_graph(80, 1, seed=3)
    np.testing.assert_array_equal(spots(graph), spots(graph))


def test_layout_keeps_hop_distances_of_a_path() -> None:
    place = spots(nx.path_graph(6))
    step = np.linalg.norm(np.diff(place, axis=0), axis=1)
    assert step.max() / step.min() < 1.3
    assert np.linalg.norm(place[5] - place[0]) == pytest.approx(step.sum(), rel=0.02)
    assert np.ptp(place[:, 0]) > 20 * np.ptp(place[:, 1])  # lies down


@pytest.mark.parametrize("size", [0, 1, 2, 3, 63, 64, 65])
def test_layout_of_stars_overlaps_nowhere(size: int) -> None:
    graph = nx.star_graph(size - 1) if size else nx.Graph()
    place = spots(graph)
    assert place.shape == (size, 2)
    assert np.isfinite(place).all()
    apart = np.linalg.norm((place[:, None] - place[None]) / SPACE, axis=2) + 9 * np.eye(size)
    assert apart.min(initial=9) > 0.9


def test_layout_puts_parts_beside_each_other() -> None:
    graph = nx.disjoint_union_all([nx.cycle_graph(8), nx.cycle_graph(5), nx.path_graph(2), *[nx.empty_graph(1)] * 3])
    place = spots(graph)
    boxes = [(place[list(part)].min(0), place[list(part)].max(0)) for part in nx.connected_components(graph)]
    for i, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[:i]:
            assert (low > other_high).any() or (other_low > high).any()
    np.testing.assert_allclose(place.min(0), -place.max(0))


def test_layout_of_the_largest_is_rings_by_hops() -> None:
    count = LARGEST + 1
    hops = [None if i % 10 == 9 else i % 3 for i in range(count)]
    place = layout(count, [], [], hops)
    radius = np.linalg.norm(place, axis=1)
    by_hop = [radius[[hop == h for hop in hops]] for h in (0, 1, 2, None)]
    assert all(inner.max() < outer.min() for inner, outer in itertools.pairwise(by_hop))
    assert len(np.unique(place.round(3), axis=0)) == count


# ---- writing


def test_an_unknown_backend_or_option_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"expected one of html, .*matplotlib, cytoscape, graphviz, got 'pdf'"):
        export_graph(small(), tmp_path / "x", backend="pdf")
    with pytest.raises(InvalidArgument, match=r"'mermaid' has the options .*got 'dpi'"):
        render_graph(small(), "mermaid", dpi=3)
    with pytest.raises(InvalidArgument, match=r"node_label: expected .*got 'nmae'"):
        render_graph(small(), "d2", node_label="nmae")
    for backend in ("dot", "matplotlib"):
        with pytest.raises(InvalidArgument, match=r"colour_by: expected 'label' or 'hops'"):
            render_graph(small(), backend, colour_by="score")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("as_given", [str, Path])
def test_a_file_is_replaced_whole_and_the_path_returned(tmp_path: Path, as_given: type) -> None:
    path = as_given(tmp_path / "graph.txt")  # any suffix
    Path(path).write_text("before")
    assert export_graph(small(), path, backend="graphviz") is path
    assert Path(path).read_text(encoding="utf-8") == render_graph(small(), "dot")
    assert [file.name for file in tmp_path.iterdir()] == ["graph.txt"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "graph.dot"
    path.write_text("before")

    def fail(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no room"):
        export_graph(small(), path, backend="dot")
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["graph.dot"]


@pytest.mark.parametrize("backend", [*TEXT_BACKENDS, "html", "matplotlib"])
@pytest.mark.parametrize("graph", [nx.MultiDiGraph(), nx.Graph(), nx.path_graph(3), evil(), small()], ids=str)
def test_every_backend_takes_every_graph(library: None, backend: str, graph: nx.Graph) -> None:
    if backend == "matplotlib":
        pytest.importorskip("matplotlib", reason="needs matplotlib")
    made = render_graph(graph, backend, title="Why?")
    assert made == render_graph(graph, backend, title="Why?")
    assert made.encode("utf-8")


# ---- HTML


class Reader(HTMLParser):
    """The tags of a page and the text of its data block."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.policy = self.title = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "script":
            self.scripts.append("")
        if dict(attrs).get("http-equiv") == "Content-Security-Policy":
            self.policy = dict(attrs)["content"] or ""

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script":
            self.scripts[-1] += data
        if self.tags and self.tags[-1] == "title":
            self.title += data

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


def test_the_page_holds_all_text_as_data(library: None) -> None:
    text = render_graph(evil(), "html", title=EVIL)
    reader, harmless = read(text), read(render_graph(nx.MultiDiGraph(), "html"))
    assert reader.tags == harmless.tags
    assert not set("<>&\u2028\u2029") & set(reader.scripts[0])
    data = json.loads(reader.scripts[0])
    shown = EVIL.replace("\x00", "\ufffd").replace("\x1b", "\ufffd").replace("\ud800", "\ufffd")
    assert data["nodes"]["text"] == [shown, shown]
    assert data["nodes"]["properties"][0] == {shown: shown, "name": shown}
    assert data["edges"]["properties"] == [{shown: [shown]}]
    assert reader.title == " ".join(shown.split())


def test_the_policy_names_exactly_the_scripts_of_the_page(library: None) -> None:
    reader = read(render_graph(small(), "html"))
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in reader.scripts[1:]]
    assert re.findall(r"'sha256-([^']+)'", reader.policy) == hashes
    assert reader.policy.startswith("default-src 'none'; script-src 'sha256-")


def test_the_page_names_no_other_place(library: None) -> None:
    assert not re.findall(r"""(?:src|href)=|url\(|@import|https?:""", render_graph(small(), "html"))


@pytest.mark.parametrize(("options", "expected"), [({}, "label"), ({"colour_by": "hops"}, "hops")])
def test_the_page_starts_with_the_colours_asked_for(library: None, options: dict[str, str], expected: str) -> None:
    assert json.loads(read(render_graph(small(), **options)).scripts[0])["colour_by"] == expected


def test_without_labels_the_page_colours_by_hops(library: None) -> None:
    graph = nx.MultiDiGraph()
    graph.add_node(1, hops=0)
    graph.add_node(2, hops=1)
    assert json.loads(read(render_graph(graph)).scripts[0])["colour_by"] == "hops"


def test_a_missing_library_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tercet.pictures.page.LIBRARY", tmp_path / "none.js")
    with pytest.raises(MissingDependency, match=r"python -m tercet\.pictures\.fetch"):
        export_graph(small(), tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []


@given(st.text())
def test_embedded_json_is_safe_and_whole(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    made = embed({text: [text]})
    assert not set("<>&\u2028\u2029") & set(made)
    assert json.loads(made) == {text: [text]}


# ---- Mermaid, DOT, D2, GraphML


def one(name: str) -> nx.MultiDiGraph:
    graph = nx.MultiDiGraph()
    graph.add_node(name, labels=["L"], text=name)
    graph.add_edge(name, name, type=name)
    return graph


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40) | st.sampled_from([EVIL, '"]', "%%{init}%%", "`md`", "#quot;", "n0", "end"]))
def test_a_name_changes_nothing_but_captions(name: str) -> None:
    graph, harmless = one(name), one("name")
    for backend, string in [
        ("mermaid", r'"(?:[\w .,:?!+*/()\'-]|#\d+;)*"'),
        ("dot", r'"(?:[^"\\\r\n]|\\["\\n])*"'),
        ("d2", r'"(?:[^"\\\r\n$]|\\["\\$])*"'),
    ]:
        made = render_graph(graph, backend)
        # What is outside quoted strings is the same for every name, but for optional strings of empty names.
        if draw(graph).relation[0] and draw(graph).text[0]:
            assert re.sub(string, '""', made) == re.sub(string, '""', render_graph(harmless, backend))


def test_mermaid_of_a_small_graph() -> None:
    made = render_graph(small(), "mermaid", title='A "title"').split("\n")
    assert made[:7] == [
        "---",
        'title: "A \\"title\\""',
        "---",
        "flowchart LR",
        '    n0(["Emma"])',
        '    n1(["A long text."])',
        '    n2(["Jane Austen"])',
    ]
    assert '    n2 -->|"wrote"| n0' in made
    assert "    class n2 group1" in made or "    class n2 group2" in made


def test_mermaid_numbers_what_could_be_syntax() -> None:
    made = render_graph(one('a"]b%%`<&#;_é'), "mermaid")
    assert '"a#34;#93;b#37;#37;#96;#60;#38;#35;#59;#95;é"' in made


def test_dot_keeps_backslashes_and_ampersands() -> None:
    graph = one("\\N & <b>")
    assert 'label="\\\\N &amp; <b>"' in render_graph(graph, "dot")
    assert " -> " in render_graph(graph, "dot")
    assert " -- " in render_graph(nx.path_graph(2), "dot")
    assert render_graph(nx.path_graph(2), "dot").startswith("graph {")


def test_d2_starts_no_substitution() -> None:
    assert 'n0: "\\${x} \\"q\\" \\\\" ' in render_graph(one('${x} "q" \\'), "d2")


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_graphml_reads_back(name: str, text: str) -> None:
    graph = nx.MultiDiGraph()
    graph.add_node(1, properties={name: text, "id": 3, "list": [1, text]}, text=text, score=0.25, hops=0)
    graph.add_node(2, properties={})
    graph.add_edge(1, 2, type=name, id=5, properties={"w": 2.5})
    drawing = draw(graph)
    back = nx.parse_graphml(render_graph(graph, "graphml"), force_multigraph=True)
    got = back.nodes["1"]
    assert (got["score"], got["hops"], got["property.id"]) == (0.25, 0, 3)
    unix = drawing.text[0].replace("\r\n", "\n").replace("\r", "\n")
    assert got.get("text", "") == unix
    assert json.loads(got["list"]) == [1, drawing.properties[0]["list"][1]]
    assert back.edges["1", "2", "e0"]["w"] == 2.5


def test_graphml_names_nodes_apart_whose_ids_look_alike() -> None:
    back = nx.parse_graphml(render_graph(small(), "graphml"), force_multigraph=True)
    assert sorted(back) == ["n0", "n1", "n2"]
    assert [back.nodes[node]["id"] for node in sorted(back)] == ["1", "1", "3"]
    assert back.number_of_edges("n2", "n0") == 2


# ---- matplotlib


def test_matplotlib_writes_what_the_suffix_says(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    for name, start in [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.PDF", b"%PDF"), ("a.jpeg", b"\x89PNG")]:
        export_graph(small(), tmp_path / name, backend="matplotlib", title="$x$ {", dpi=60)
        content = (tmp_path / name).read_bytes()
        assert content.startswith(start)
        export_graph(small(), tmp_path / name, backend="matplotlib", title="$x$ {", dpi=60)
        assert (tmp_path / name).read_bytes() == content


# ---- the library's file


def archive(folder: Path, members: dict[str, bytes]) -> tuple[Path, str]:
    file = folder / "library.tgz"
    with tarfile.open(file, "w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return file, "sha512-" + base64.b64encode(hashlib.sha512(file.read_bytes()).digest()).decode()


def test_only_the_pinned_archive_is_unpacked(tmp_path: Path) -> None:
    content = {"package/dist/cytoscape.min.js": b"js", "package/LICENSE": b"MIT", "package/../evil": b"no"}
    file, integrity = archive(tmp_path, content)
    with pytest.raises(FetchError, match="expected sha512-"):
        unpack(file, tmp_path / "to")
    assert not (tmp_path / "to").exists()
    unpack(file, tmp_path / "to", integrity)
    assert sorted(made.name for made in (tmp_path / "to").iterdir()) == [
        "cytoscape.LICENSE",
        "cytoscape.integrity",
        "cytoscape.min.js",
    ]
    file, integrity = archive(tmp_path, {"package/LICENSE": b"MIT"})
    with pytest.raises(FetchError, match="expected a file package/dist"):
        unpack(file, tmp_path / "to", integrity)


def test_fetch_without_npm_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FetchError, match="npm is needed"):
        fetch(tmp_path / "to")


# ---- as Grafito writes


def recorded() -> list[Any]:
    if not GOLDEN.is_dir():
        return []
    return json.loads((GOLDEN / "case.json").read_text(encoding="utf-8"))["calls"]


def golden_graph(directed: bool) -> nx.MultiGraph:
    """The subgraph of the recorded calls: all four nodes, two seeds and their neighbours."""
    tables = json.loads((GOLDEN / "graph.json").read_text(encoding="utf-8"))
    graph = nx.MultiDiGraph() if directed else nx.MultiGraph()
    for node in tables["nodes"]:
        hops = 0 if node["id"] in (1, 2) else 1
        graph.add_node(node["id"], labels=node["labels"], properties=node["properties"], uri=None, hops=hops)
    for edge in tables["relationships"]:
        graph.add_edge(
            edge["source"], edge["target"], key=edge["id"], id=edge["id"], type=edge["type"], properties={}, uri=None
        )
    return graph


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="needs the recorded cases in ../shared")
@pytest.mark.parametrize("number", range(len(recorded()) or 1))
def test_as_recorded(number: int, tmp_path: Path) -> None:
    call = recorded()[number]
    backend, options, expected = call["args"][0], call["kwargs"], call["expect"]
    graph = golden_graph(call.get("directed", True))
    if "error" in expected:
        with pytest.raises(ValueError, match="backend"):
            export_graph(graph, tmp_path / "x", backend=backend)
    elif backend == "cytoscape":
        assert grafito.elements(graph, **options) == expected["elements"]
    elif backend == "d3":
        assert grafito.data(graph, **options) == expected["data"]
    elif backend == "pyvis":
        nodes, edges = grafito.pyvis(graph, **options)
        assert (nodes, edges) == (expected["nodes"], expected["edges"])
    else:
        assert grafito.lines(graph, backend, **options) == expected["lines"]
        path = export_graph(graph, tmp_path / "x", backend=backend, compatible=True, **options)
        written = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        assert [line for line in written if line in expected["lines"]] == expected["lines"]


def test_grafito_wants_a_multigraph() -> None:
    for call in (grafito.elements, grafito.data, grafito.pyvis):
        with pytest.raises(InvalidArgument, match="expected a networkx multigraph, got Graph"):
            call(nx.Graph())
