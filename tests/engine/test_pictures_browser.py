"""The HTML picture in a real browser with the network off: it draws, finds, tells and stays harmless."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from tercet.pictures import export_graph
from tercet.pictures.page import LIBRARY

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
BROWSER = os.environ.get("TERCET_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(not LIBRARY.is_file(), reason="needs Cytoscape.js: python -m tercet.pictures.fetch"),
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium, on the path or named by TERCET_CHROMIUM"),
]

EVIL = "</script><img src=x onerror=alert(1)><!-- <script>"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def sample() -> nx.MultiDiGraph:
    """Three seeds and what is about them, with text that tries to be code."""
    graph = nx.MultiDiGraph()
    rows = [
        ("a", ["Person"], "Ada Lovelace", "Wrote the first published programme.", 0.9, 0),
        ("b", ["Person"], "Charles Bäbbage", "Designed engines.", 0.4, 0),
        ("c", ["Machine"], "Analytical Engine", "Never built; Ada described it.", None, 1),
        ("d", [], EVIL, "{{data}} \u2028 & <b>bold</b>", None, None),
    ]
    for node, labels, title, text, score, hops in rows:
        properties = {"born": 1815, "html": EVIL, "list": [1, {"x": None}], "constructor": "own"}
        parts = {"vector": 0.7} if score else {}
        graph.add_node(
            node, labels=labels, title=title, text=text, score=score, hops=hops, properties=properties, parts=parts
        )
    graph.add_edge("a", "c", key=1, id=1, type="described", text="In her notes.", properties={"year": 1843})
    graph.add_edge("b", "c", key=2, id=2, type=EVIL, properties={})
    graph.add_edge("c", "c", key=3, id=3, type="feeds", properties={})
    graph.add_edge("a", "b", key=4, id=4, type="knew", properties={})
    graph.add_edge("a", "b", key=5, id=5, type="wrote to", properties={})
    return graph


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_graph(sample(), tmp_path_factory.mktemp("pictures") / "graph.html", title=f"Who? {EVIL}")


@pytest.fixture
def open_page(browser: Any) -> Iterator[Any]:
    """Opens a file offline; on leaving, nothing may have been complained of, asked or loaded."""
    troubles: list[str] = []
    contexts = []

    def opened(file: Path, **options: Any) -> Any:
        context = browser.new_context(offline=True, reduced_motion="reduce", **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (troubles.append("a dialog"), dialog.dismiss()))
        page.on(
            "request", lambda request: request.url.startswith("file:") or troubles.append(f"asks {request.url[:80]}")
        )
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached", timeout=20_000)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


def colours(page: Any) -> int:
    """How many different colours the canvases hold."""
    page.wait_for_timeout(150)
    return page.evaluate("""() => {
        const seen = new Set();
        for (const canvas of document.querySelectorAll('#picture canvas')) {
            const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            for (let i = 0; i < data.length; i += 4)
                if (data[i + 3]) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
        }
        return seen.size;
    }""")


def tap(page: Any, element: str) -> None:
    """A real click where the node or edge lies."""
    spot = page.evaluate(
        "id => { const one = tercet.cy.$id(id), at = one.isNode() ? one.renderedPosition() : one.renderedMidpoint(),"
        " box = document.getElementById('picture').getBoundingClientRect();"
        " return [box.left + at.x, box.top + at.y]; }",
        element,
    )
    page.mouse.click(*spot)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_draws_everything(open_page: Any, picture: Path, scheme: str) -> None:
    page = open_page(picture, color_scheme=scheme)
    assert page.evaluate("[tercet.cy.nodes().length, tercet.cy.edges().length]") == [4, 5]
    assert colours(page) > 20
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.inner_text("#counts") == "4 nodes, 5 edges, 2 seeds"
    assert [text.split("\n")[0] for text in page.locator("#legend button").all_inner_texts()] == [
        "Person",
        "Machine",
        "no label",
    ]
    inside = """tercet.cy.nodes().every(node => {
        const { x, y } = node.renderedPosition();
        return x > 0 && y > 0 && x < tercet.cy.width() && y < tercet.cy.height();
    })"""
    assert page.evaluate(inside)


def test_a_hostile_name_is_only_a_name(open_page: Any, picture: Path) -> None:
    page = open_page(picture)
    assert page.title() == page.inner_text("h1") == f"Who? {EVIL}"
    tap(page, "n3")
    assert page.inner_text("#panel h2") == EVIL
    assert "{{data}}" in page.inner_text("#panel .text")
    assert page.evaluate("['img', 'script', 'b'].map(tag => document.querySelectorAll(tag).length)") == [0, 3, 0]
    page.keyboard.press("Escape")
    page.evaluate("void tercet.cy.$id('e3').emit('tap')")
    assert page.inner_text("#panel h2") == EVIL
    assert page.evaluate("document.querySelectorAll('img').length") == 0


def test_the_policy_stops_foreign_scripts(open_page: Any, picture: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.html"
    text = picture.read_text(encoding="utf-8")
    changed.write_text(text.replace("<noscript>", "<script>window.foreign = 1</script><noscript>"), encoding="utf-8")
    page = open_page(picture)
    assert page.evaluate("window.foreign") is None
    other = page.context.new_page()  # not watched: the browser complains of the script, as it should
    other.goto(changed.as_uri())
    other.wait_for_selector("html[data-ready]", state="attached")
    assert other.evaluate("window.foreign") is None


def test_search_finds_counts_and_centres(open_page: Any, picture: Path) -> None:
    page = open_page(picture)
    page.keyboard.press("/")
    page.keyboard.type("ADA")  # in a caption and in another's text
    assert page.inner_text("#found") == "2 matches"
    assert page.evaluate("tercet.cy.$('.match').map(n => n.id())") == ["n0", "n2"]
    assert page.evaluate("tercet.cy.$('node.faded').map(n => n.id())") == ["n1", "n3"]
    page.keyboard.press("Enter")
    assert page.inner_text("#found") == "1 of 2"
    assert page.inner_text("#panel h2") == "Ada Lovelace"
    page.keyboard.press("Enter")
    assert page.inner_text("#panel h2") == "Analytical Engine"
    page.fill("#query", "babbage")  # without the accent
    assert page.inner_text("#found") == "1 match"
    off = page.evaluate("""(() => {
        const { x, y } = tercet.cy.$id('n1').renderedPosition();
        return Math.hypot(x - tercet.cy.width() / 2, y - tercet.cy.height() / 2);
    })()""")
    assert off < 2
    page.fill("#query", "nothing of the sort")
    assert page.inner_text("#found") == "no matches"
    page.fill("#query", "")
    assert page.inner_text("#found") == ""
    assert page.evaluate("tercet.cy.$('.faded, .match').length") == 0


def test_a_click_tells_all_about_a_node(open_page: Any, picture: Path) -> None:
    page = open_page(picture)
    assert page.is_hidden("#panel")
    tap(page, "n0")
    told = page.inner_text("#panel")
    for part in (
        "Ada Lovelace",
        "Person",
        "Wrote the first published programme.",
        "0.9",
        "0 (seed)",
        "vector",
        "0.7",
        "1815",
    ):
        assert part in told
    assert "constructor" in told
    assert EVIL in told
    assert "3 relations" in told
    page.click("#panel li button >> text=Analytical Engine")
    assert page.inner_text("#panel h2") == "Analytical Engine"
    page.click("#panel .close")
    assert page.is_hidden("#panel")


def test_a_click_tells_all_about_an_edge(open_page: Any, picture: Path) -> None:
    page = open_page(picture)
    tap(page, "e0")
    told = page.inner_text("#panel")
    for part in ("described", "Ada Lovelace", "Analytical Engine", "In her notes.", "1843"):
        assert part in told


def test_keys_are_enough(open_page: Any, picture: Path) -> None:
    page = open_page(picture)
    page.focus("#picture")
    page.keyboard.press("ArrowRight")  # the first: the best seed
    assert page.inner_text("#panel h2") == "Ada Lovelace"
    seen = set()
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp") * 2:
        page.keyboard.press(key)
        seen.add(page.inner_text("#panel h2"))
    assert len(seen) >= 3
    assert page.inner_text("#status") == page.inner_text("#panel h2")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "panel"
    page.keyboard.press("Escape")
    assert page.is_hidden("#panel")
    assert page.evaluate("document.activeElement.id") == "picture"
    zoom = page.evaluate("tercet.cy.zoom()")
    page.keyboard.press("+")
    assert page.evaluate("tercet.cy.zoom()") > zoom


def test_switches(open_page: Any, picture: Path) -> None:
    page = open_page(picture, color_scheme="light")
    fill = "tercet.cy.$id('n0').data('fill')"
    by_label = page.evaluate(fill)
    page.check("#colour input[value=hops]", force=True)
    assert page.evaluate(fill) != by_label
    assert "1 hop" in page.inner_text("#legend")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.wait_for_timeout(150)
    assert page.evaluate("tercet.cy.edges('.named').length") > 0
    page.uncheck("#relations")
    assert page.evaluate("tercet.cy.edges('.named').length") == 0
    page.click("#legend button >> text=1 hop")
    assert page.evaluate("tercet.cy.$('node.faded').length") == 3
    with page.expect_download() as saved:
        page.click("#save")
    assert Path(saved.value.path()).read_bytes()[:4] == b"\x89PNG"


def test_node_size_follows_the_score(open_page: Any, picture: Path) -> None:
    page = open_page(picture)
    wide = page.evaluate("tercet.cy.nodes().map(n => n.width())")
    assert wide[0] > wide[1] > wide[2] == wide[3]


def test_five_hundred_nodes_are_readable(open_page: Any, tmp_path: Path) -> None:
    graph = nx.MultiDiGraph(nx.barabasi_albert_graph(500, 1, seed=1))
    for node, data in graph.nodes(data=True):
        data.update(labels=["Topic"], title=f"Topic number {node}", hops=0 if node < 9 else 1, score=1 / (node + 1))
    page = open_page(export_graph(graph, tmp_path / "large.html"))
    page.wait_for_timeout(200)
    boxes = page.evaluate("""() => tercet.cy.nodes('.below, .above, .left, .right').map(n => {
        const only = { includeNodes: false, includeEdges: false, includeOverlays: false, includeUnderlays: false };
        const b = n.renderedBoundingBox(only);
        return [b.x1, b.y1, b.x2, b.y2, parseFloat(n.style('font-size')) * tercet.cy.zoom()];
    })""")
    assert len(boxes) > 20
    assert all(size > 11 for *_, size in boxes)
    slack = 8  # the box that Cytoscape.js gives has a margin
    for i, (x1, y1, x2, y2, _) in enumerate(boxes):
        for a1, b1, a2, b2, _ in boxes[:i]:
            assert (
                x1 + slack >= a2 - slack
                or a1 + slack >= x2 - slack
                or y1 + slack >= b2 - slack
                or b1 + slack >= y2 - slack
            )


def test_an_empty_and_an_undirected_graph(open_page: Any, tmp_path: Path) -> None:
    page = open_page(export_graph(nx.MultiGraph(), tmp_path / "empty.html"))
    assert page.inner_text("#counts") == "0 nodes, 0 edges"
    page.focus("#picture")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("0")
    page = open_page(export_graph(nx.path_graph(3), tmp_path / "path.html"))
    assert page.evaluate("tercet.cy.edges()[0].style('target-arrow-shape')") == "none"
