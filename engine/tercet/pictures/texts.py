"""Pictures as text: Mermaid, DOT (Graphviz), D2 and GraphML. Whatever a caption holds, it stays a caption."""

import io
import re
from collections.abc import Callable
from typing import Any

from tercet.errors import InvalidArgument
from tercet.pictures.drawing import Drawing, as_text

RESERVED = ("caption", "labels", "text", "uri", "score", "hops", "parts", "id", "relation")


def mermaid(drawing: Drawing, colour_by: str = "label") -> str:
    """A flowchart for Mermaid; nodes are called n0, n1, …"""
    arrow = "-->" if drawing.directed else "---"
    lines = [f"---\ntitle: {_quoted(drawing.title)}\n---"] if drawing.title else []
    lines.append("flowchart LR")
    lines += [f'    n{i}(["{_entities(caption)}"])' for i, caption in enumerate(drawing.caption)]
    for source, target, relation in zip(drawing.source, drawing.target, drawing.relation, strict=True):
        label = f'|"{_entities(relation)}"|' if relation else ""
        lines.append(f"    n{source} {arrow}{label} n{target}")
    groups = drawing.hop_groups if colour_by == "hops" else drawing.label_groups
    by = drawing.by_hops if colour_by == "hops" else drawing.by_label
    for place, group in enumerate(groups):
        members = ",".join(f"n{i}" for i, of in enumerate(by) if of == place)
        lines.append(f"    classDef group{place} fill:{group.light},stroke:{group.light},color:{ink_on(group.light)}")
        lines.append(f"    class {members} group{place}")
    return "\n".join(lines) + "\n"


def dot(drawing: Drawing, colour_by: str = "label") -> str:
    """A graph in the DOT language for Graphviz; nodes are called n0, n1, …, their text is their tooltip."""
    arrow = "->" if drawing.directed else "--"
    lines = [f"{'digraph' if drawing.directed else 'graph'} {{"]
    if drawing.title:
        lines.append(f"  label={_dot(drawing.title)}; labelloc=t; fontsize=18;")
    lines.append('  graph [fontname="Helvetica", overlap=false, splines=true];')
    lines.append('  node [shape=box, style="rounded,filled", penwidth=0, fontname="Helvetica", fontsize=11];')
    lines.append('  edge [fontname="Helvetica", fontsize=9, color="#8a8d94", fontcolor="#5c6068", arrowsize=0.7];')
    for i, caption in enumerate(drawing.caption):
        fill = drawing.group(i, colour_by).light
        tip = f", tooltip={_dot(drawing.text[i])}" if drawing.text[i] else ""
        lines.append(f'  n{i} [label={_dot(caption)}, fillcolor="{fill}", fontcolor="{ink_on(fill)}"{tip}];')
    for source, target, relation in zip(drawing.source, drawing.target, drawing.relation, strict=True):
        lines.append(f"  n{source} {arrow} n{target} [label={_dot(relation)}];")
    return "\n".join([*lines, "}"]) + "\n"


def d2(drawing: Drawing, colour_by: str = "label") -> str:
    """A diagram for D2; nodes are called n0, n1, …"""
    arrow = "->" if drawing.directed else "--"
    lines = ["direction: right"]
    if drawing.title:
        lines.append(f"title: {_d2(drawing.title)} {{shape: text; near: top-center; style.font-size: 24}}")
    for i, caption in enumerate(drawing.caption):
        fill = drawing.group(i, colour_by).light
        style = f'style: {{fill: "{fill}"; stroke: "{fill}"; font-color: "{ink_on(fill)}"; border-radius: 8}}'
        lines.append(f"n{i}: {_d2(caption)} {{{style}}}")
    for source, target, relation in zip(drawing.source, drawing.target, drawing.relation, strict=True):
        lines.append(f"n{source} {arrow} n{target}" + (f": {_d2(relation)}" if relation else ""))
    return "\n".join(lines) + "\n"


def graphml(drawing: Drawing) -> str:
    """GraphML as networkx writes it: node ids as text, each property under its own key, lists and maps as JSON text."""
    import networkx as nx

    ids = drawing.id if len(set(drawing.id)) == len(drawing.id) else [f"n{i}" for i in range(len(drawing.id))]
    graph: Any = nx.MultiDiGraph() if drawing.directed else nx.MultiGraph()
    if drawing.title:
        graph.graph["title"] = _xml(drawing.title)
    for i, name in enumerate(ids):
        fixed = {
            "id": drawing.id[i],
            "caption": drawing.caption[i],
            "labels": as_text(list(drawing.labels[i])) if drawing.labels[i] else None,
            "text": drawing.text[i],
            "uri": drawing.uri[i],
            "score": drawing.score[i],
            "hops": drawing.hops[i],
            "parts": as_text(drawing.parts[i]) if drawing.parts[i] else None,
        }
        graph.add_node(_xml(name), **_scalars(fixed, drawing.properties[i]))
    for i, (source, target) in enumerate(zip(drawing.source, drawing.target, strict=True)):
        fixed = {
            "id": drawing.edge_id[i],
            "relation": drawing.relation[i],
            "text": drawing.edge_text[i],
            "uri": drawing.edge_uri[i],
            "score": drawing.edge_score[i],
        }
        graph.add_edge(_xml(ids[source]), _xml(ids[target]), key=f"e{i}", **_scalars(fixed, drawing.edge_properties[i]))
    written = io.BytesIO()
    nx.write_graphml_xml(graph, written)  # the writer that needs no lxml
    return written.getvalue().decode("utf-8")


TEXTS: dict[str, Callable[..., str]] = {"mermaid": mermaid, "dot": dot, "d2": d2, "graphml": graphml}


def ink_on(fill: str) -> str:
    """Black or white, whichever is read better on `fill` (#rrggbb), by the contrast ratio of WCAG 2."""
    parts = (int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "#ffffff"


def check_colour_by(colour_by: str) -> None:
    """Raises InvalidArgument unless it is "label" or "hops"."""
    if colour_by not in ("label", "hops"):
        raise InvalidArgument(f"colour_by: expected 'label' or 'hops', got {colour_by!r}")


def _entities(text: str) -> str:
    """Mermaid's text: all but letters, digits and harmless signs as numbered entities."""
    return re.sub(r"[^\w .,:?!+*/()'-]|_", lambda sign: f"#{ord(sign[0])};", text)


def _quoted(text: str) -> str:
    """A double-quoted YAML scalar."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _dot(text: str) -> str:
    """A quoted DOT string: no escapes such as \\N, no HTML entities, line ends as \\n."""
    text = text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]", r"\\n", text) + '"'


def _d2(text: str) -> str:
    """A double-quoted D2 string: `$` would start a substitution."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'


def _xml(text: str) -> str:
    """`text` without a carriage return, which readers of XML turn into a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _scalars(fixed: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    """What is known under its name, properties under theirs or, where that is taken, under `property.<name>`."""
    named = {f"property.{name}" if name in RESERVED else name: value for name, value in properties.items()}
    both = {**{name: value for name, value in fixed.items() if value not in (None, "")}, **named}
    scalar = {
        name: value if isinstance(value, (bool, int, float)) else _xml(as_text(value)) for name, value in both.items()
    }
    return {_xml(name): value for name, value in scalar.items() if both[name] is not None}
