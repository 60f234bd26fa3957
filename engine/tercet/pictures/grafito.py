"""What Grafito's `export_graph` writes for nodes and edges, for pages and scripts made for it.

Agrees with grafitodb 0.8.6 as recorded, quirks included: scores and hops aren't in cytoscape and d3 elements, an
undirected edge runs from the end that comes first, and Mermaid text isn't escaped. The backends of `export_graph` do
better.
"""

import re
from collections.abc import Mapping
from typing import Any

from tercet.errors import InvalidArgument
from tercet.pictures.drawing import CaptionOf, as_networkx, caption_of

COLOURS = (  # by first label in order of appearance
    "#8ecae6", "#219ebc", "#023047", "#ffb703", "#fb8500",
    "#90be6d", "#f94144", "#577590", "#43aa8b", "#f3722c",
)  # fmt: skip
HEADERS = {"mermaid": "flowchart LR", "d2": "direction: right"}


def elements(
    graph: Any, *, node_label: str | None = None, label_attr: str | None = None, label_fn: CaptionOf | None = None
) -> list[dict[str, Any]]:
    """Grafito's Cytoscape.js elements: nodes, then edges, each `{"data": {...}}`."""
    graph = _multigraph(graph)
    edges = [
        {"id": f"{source}-{target}-{key}", "source": str(source), "target": str(target), "label": _relation(data)}
        for source, target, key, data in graph.edges(keys=True, data=True)
    ]
    return [{"data": data} for data in [*_nodes(graph, node_label, label_attr, label_fn), *edges]]


def data(
    graph: Any, *, node_label: str | None = None, label_attr: str | None = None, label_fn: CaptionOf | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Grafito's data for D3: `nodes` and `links`."""
    graph = _multigraph(graph)
    links = [
        {"source": str(source), "target": str(target), "label": _relation(data)}
        for source, target, data in graph.edges(data=True)
    ]
    return {"nodes": _nodes(graph, node_label, label_attr, label_fn), "links": links}


def pyvis(
    graph: Any,
    *,
    node_label: str | None = None,
    label_attr: str | None = None,
    label_fn: CaptionOf | None = None,
    node_size_attr: str | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Nodes and edges as Grafito gives them to pyvis; `size` is the property, else the attribute, of node_size_attr."""
    graph = _multigraph(graph)
    nodes = []
    for node, attributes in graph.nodes(data=True):
        one = {"id": node, "label": caption_of(node, attributes, node_label or "id", label_attr, label_fn)}
        if node_size_attr is not None:
            properties = attributes.get("properties") or {}
            size = properties.get(node_size_attr, attributes.get(node_size_attr))
            if size is not None:
                one["size"] = size
        nodes.append(one)
    edges = [
        {"from": source, "to": target, "label": _relation(data)} for source, target, data in graph.edges(data=True)
    ]
    return nodes, edges


def lines(
    graph: Any,
    backend: str,
    *,
    node_label: str | None = None,
    label_attr: str | None = None,
    label_fn: CaptionOf | None = None,
) -> list[str]:
    """The lines for nodes and edges that Grafito writes for "d2", "mermaid" or "graphviz" ("dot").

    Raises:
        InvalidArgument: another backend, or not a multigraph.
    """
    graph = _multigraph(graph)
    captions = {
        node: caption_of(node, attributes, node_label or "id", label_attr, label_fn)
        for node, attributes in graph.nodes(data=True)
    }
    edges = [(source, target, _relation(data)) for source, target, data in graph.edges(data=True)]
    if backend == "d2":
        quote = _quoted_d2
        named = [f"{quote(node)}: {quote(caption)}" for node, caption in captions.items()]
        return named + [f"{quote(source)} -> {quote(target)}: {quote(kind)}" for source, target, kind in edges]
    if backend == "mermaid":
        named = [f'{_mermaid_id(node)}["{caption}"]' for node, caption in captions.items()]
        return named + [
            f'{_mermaid_id(source)} -- "{kind}" --> {_mermaid_id(target)}' for source, target, kind in edges
        ]
    if backend in ("graphviz", "dot"):
        quote = _quoted_dot
        named = [f"{quote(node)} [label={quote(caption)}];" for node, caption in captions.items()]
        return named + [f"{quote(source)} -> {quote(target)} [label={quote(kind)}];" for source, target, kind in edges]
    raise InvalidArgument(f"backend: expected 'd2', 'mermaid', 'graphviz' or 'dot', got {backend!r}")


def text(graph: Any, backend: str, **captions: Any) -> str:
    """The lines of `lines` as a whole file."""
    body = lines(graph, backend, **captions)
    if backend in HEADERS:
        return "\n".join([HEADERS[backend], *body]) + "\n"
    return "\n".join(["digraph {", *(f"  {line}" for line in body), "}"]) + "\n"


def _multigraph(graph: Any) -> Any:
    graph = as_networkx(graph)
    if not graph.is_multigraph():
        raise InvalidArgument(f"graph: expected a networkx multigraph, got {type(graph).__name__}")
    return graph


def _nodes(
    graph: Any, node_label: str | None, label_attr: str | None, label_fn: CaptionOf | None
) -> list[dict[str, Any]]:
    """Id, caption, group, colour and title of each node."""
    colour: dict[str, str] = {}
    nodes = []
    for node, attributes in graph.nodes(data=True):
        labels = sorted(attributes.get("labels") or ())
        if labels:
            colour.setdefault(labels[0], COLOURS[len(colour) % len(COLOURS)])
        one = {
            "id": str(node),
            "label": caption_of(node, attributes, node_label or "id", label_attr, label_fn),
            "group": labels[0] if labels else "Node",
            "color": colour[labels[0]] if labels else COLOURS[0],
            "title": caption_of(node, attributes, "name", None, None),
        }
        nodes.append(one)
    return nodes


def _relation(attributes: Mapping[str, Any]) -> str:
    return str(attributes.get("type", "RELATED_TO"))


def _mermaid_id(node: Any) -> str:
    word = re.sub(r"\W", "_", str(node))
    return word if word[:1].isalpha() else f"n_{word}"


def _quoted_d2(value: Any) -> str:
    return '"' + str(value).replace('"', "'") + '"'


def _quoted_dot(value: Any) -> str:
    return '"' + str(value).replace('"', '\\"') + '"'
