"""What a picture shows: the nodes and edges of a networkx graph in flat lists, with captions and colours."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tercet.errors import InvalidArgument

# Colours by (light, dark) page; neighbours in the list stay apart for colour-blind readers.
KINDS = (
    ("#2a78d6", "#3987e5"),
    ("#eb6834", "#d95926"),
    ("#1baf7a", "#199e70"),
    ("#eda100", "#c98500"),
    ("#e87ba4", "#d55181"),
    ("#4a3aa7", "#9085e9"),
    ("#008300", "#30a030"),
    ("#e34948", "#e66767"),
)
STEPS = (("#0d4fa3", "#9ec5f4"), ("#3987e5", "#5598e7"), ("#86b6ef", "#2a78d6"), ("#bcd6f5", "#1c4f8c"))  # by hops
NEUTRAL = ("#9a9a94", "#7d7c76")
OTHER = "other labels"
NO_LABEL = "no label"
NODE_LABELS = (None, "id", "name", "labels", "label_and_name")
CAPTION = 60  # characters

# What neither XML nor a screen can show, and halves of surrogate pairs, which UTF-8 can't hold.
UNSHOWN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")

CaptionOf = Callable[[Any, Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Group:
    """Nodes of one colour: a name for the legend, and the colour on a light and on a dark page."""

    name: str
    light: str
    dark: str


@dataclass(frozen=True, eq=False)
class Drawing:
    """Nodes and edges in the order of the graph, one entry a node (N) or edge (E) in each list."""

    title: str
    directed: bool
    id: Sequence[str]  # (N,) as text
    caption: Sequence[str]  # (N,) one line
    labels: Sequence[tuple[str, ...]]  # (N,)
    text: Sequence[str]  # (N,)
    uri: Sequence[str]  # (N,) empty where unknown
    score: Sequence[float | None]  # (N,)
    parts: Sequence[dict[str, Any]]  # (N,) what the score is made of, as given
    hops: Sequence[int | None]  # (N,)
    properties: Sequence[dict[str, Any]]  # (N,) JSON values
    by_label: Sequence[int]  # (N,) into label_groups
    by_hops: Sequence[int]  # (N,) into hop_groups
    label_groups: Sequence[Group]
    hop_groups: Sequence[Group]
    source: Sequence[int]  # (E,) node numbers
    target: Sequence[int]  # (E,)
    edge_id: Sequence[str]  # (E,)
    relation: Sequence[str]  # (E,)
    edge_text: Sequence[str]  # (E,)
    edge_uri: Sequence[str]  # (E,)
    edge_score: Sequence[float | None]  # (E,)
    edge_properties: Sequence[dict[str, Any]]  # (E,)

    def group(self, node: int, colour_by: str) -> Group:
        """The group that gives `node` its colour."""
        return self.hop_groups[self.by_hops[node]] if colour_by == "hops" else self.label_groups[self.by_label[node]]

    def size(self) -> list[float]:
        """(N,) in [0, 1]: the place of each score between the lowest and the highest, 0 without one."""
        known = [score for score in self.score if score is not None]
        if not known:
            return [0.0] * len(self.score)
        low, span = min(known), max(known) - min(known)
        return [0.0 if score is None else 0.25 + 0.75 * ((score - low) / span if span else 1.0) for score in self.score]


def draw(
    graph: Any,
    title: str | None = None,
    node_label: str | None = None,
    label_attr: str | None = None,
    label_fn: CaptionOf | None = None,
) -> Drawing:
    """A drawing of a networkx graph.

    Args:
        graph: a networkx graph or multigraph, or what has `to_networkx()`. Node attributes read: labels, properties,
            title, text, uri, score, parts, hops; edge attributes: id, type, text, uri, score, properties. All may be
            missing.
        title: shown above the picture, as the question that was asked.
        node_label: None for the node's title, else its property `name`, `title` or `label`, else its text, else its id;
            or "id", "name", "labels", "label_and_name".
        label_attr: a property or attribute to caption nodes with; the id where it's missing.
        label_fn: called with the node and its attributes; gives the caption. Goes before label_attr, that before
            node_label.

    Raises:
        InvalidArgument: not a networkx graph, or an unknown node_label.
    """
    graph = as_networkx(graph)
    if node_label not in NODE_LABELS:
        names = ", ".join(map(str, NODE_LABELS))
        raise InvalidArgument(f"node_label: expected one of {names}, got {node_label!r}")
    nodes = list(graph.nodes(data=True))
    number = {node: i for i, (node, _) in enumerate(nodes)}
    edges = list(graph.edges(keys=True, data=True) if graph.is_multigraph() else _keyed(graph))
    labels = [_labels(data) for _, data in nodes]
    hops = [_hops(data.get("hops")) for _, data in nodes]
    label_groups, by_label = _label_groups(labels)
    hop_groups, by_hops = _hop_groups(hops)
    captions = [caption_of(node, data, node_label, label_attr, label_fn) for node, data in nodes]
    return Drawing(
        title=line(title or ""),
        directed=bool(graph.is_directed()),
        id=[clean(str(node)) for node, _ in nodes],
        caption=[shorten(caption) or "(blank)" for caption in captions],
        labels=labels,
        text=[_text(data.get("text")) for _, data in nodes],
        uri=[_text(data.get("uri")) for _, data in nodes],
        score=[_score(data.get("score")) for _, data in nodes],
        parts=[_mapping(data.get("parts")) for _, data in nodes],
        hops=hops,
        properties=[_mapping(data.get("properties")) for _, data in nodes],
        by_label=by_label,
        by_hops=by_hops,
        label_groups=label_groups,
        hop_groups=hop_groups,
        source=[number[edge[0]] for edge in edges],
        target=[number[edge[1]] for edge in edges],
        edge_id=[_text(edge[3].get("id", edge[2])) for edge in edges],
        relation=[line(edge[3].get("type")) for edge in edges],
        edge_text=[_text(edge[3].get("text")) for edge in edges],
        edge_uri=[_text(edge[3].get("uri")) for edge in edges],
        edge_score=[_score(edge[3].get("score")) for edge in edges],
        edge_properties=[_mapping(edge[3].get("properties")) for edge in edges],
    )


def as_networkx(graph: Any) -> Any:
    """`graph`, or what its `to_networkx()` gives.

    Raises:
        InvalidArgument: neither a networkx graph nor something that can become one.
    """
    made = graph.to_networkx() if hasattr(graph, "to_networkx") else graph
    if not all(hasattr(made, name) for name in ("is_directed", "is_multigraph", "nodes", "edges")):
        raise InvalidArgument(
            f"graph: expected a networkx graph or an object with to_networkx(), got {type(graph).__name__}"
        )
    return made


def caption_of(
    node: Any, data: Mapping[str, Any], node_label: str | None, label_attr: str | None, label_fn: CaptionOf | None
) -> str:
    """The caption of a node, by the rules of `draw`."""
    properties = data.get("properties") or {}
    if label_fn is not None:
        return str(label_fn(node, data))
    if label_attr is not None:
        return str(properties.get(label_attr, data.get(label_attr, node)))
    name = properties.get("name", node)
    kinds = ":".join(_labels(data))
    if node_label is None:
        found = (data.get("title"), *(properties.get(key) for key in ("name", "title", "label")), data.get("text"))
        return next((str(value) for value in found if value not in (None, "")), str(node))
    if node_label == "name":
        return str(name)
    if node_label == "labels":
        return kinds or str(node)
    if node_label == "label_and_name":
        return f"{kinds} {name}" if kinds else str(name)
    return str(node)


def clean(text: str) -> str:
    """`text` with what can't be shown or written as UTF-8 replaced by U+FFFD."""
    return UNSHOWN.sub("\ufffd", text)


def line(value: Any) -> str:
    """`value` as clean text on one line, blanks at the ends off."""
    return "" if value is None else " ".join(clean(str(value)).split())


def shorten(text: Any, most: int = CAPTION) -> str:
    """One line of at most `most` characters."""
    short = line(text)
    return short if len(short) <= most else short[: most - 1].rstrip() + "…"


def plain(value: Any) -> Any:
    """`value` in what JSON holds without loss: whole numbers beyond 2**53, infinities and other things become text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int):
        return int(value) if abs(value) <= 2**53 else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {clean(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=repr)
    if hasattr(value, "tolist"):  # scalars and arrays of NumPy and torch
        return plain(value.tolist())
    return clean(str(value))


def as_text(value: Any) -> str:
    """A JSON value as text: strings as they are."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _keyed(graph: Any) -> list[tuple[Any, Any, Any, dict[str, Any]]]:
    """The edges of a graph without parallel ones, numbered as a multigraph's would be."""
    return [(source, target, i, data) for i, (source, target, data) in enumerate(graph.edges(data=True))]


def _labels(data: Mapping[str, Any]) -> tuple[str, ...]:
    labels = data.get("labels") or ()
    return tuple(line(label) for label in sorted([labels] if isinstance(labels, str) else labels, key=str))


def _text(value: Any) -> str:
    return "" if value is None else clean(str(value))


def _score(value: Any) -> float | None:
    if value is None or not math.isfinite(float(value)):
        return None
    return float(value)


def _hops(value: Any) -> int | None:
    return None if value is None else int(value)


def _mapping(value: Any) -> dict[str, Any]:
    return plain(value) if isinstance(value, Mapping) else {}


def _label_groups(labels: Sequence[tuple[str, ...]]) -> tuple[list[Group], list[int]]:
    """A group for each of the commonest first labels, one for the others, one for nodes without."""
    first = [kinds[0] if kinds else None for kinds in labels]
    count = Counter(label for label in first if label is not None)
    common = sorted(sorted(count), key=lambda label: -count[label])
    if len(common) > len(KINDS):
        common = common[: len(KINDS)]
    groups = [Group(label, *KINDS[i]) for i, label in enumerate(common)]
    place: dict[str | None, int] = {label: i for i, label in enumerate(common)}
    if len(count) > len(common):
        groups.append(Group(OTHER, *NEUTRAL))
        for label in count:
            place.setdefault(label, len(groups) - 1)
    if None in first:
        groups.append(Group(NO_LABEL, *(NEUTRAL if len(count) <= len(common) else ("#5f5e5a", "#a8a79f"))))
        place[None] = len(groups) - 1
    return groups, [place[label] for label in first]


def _hop_groups(hops: Sequence[int | None]) -> tuple[list[Group], list[int]]:
    """A group for seeds and each number of hops, the last for all further ones, and one for unknown."""
    last = len(STEPS) - 1
    step = [None if hop is None else min(max(hop, 0), last) for hop in hops]
    names = ["seed", "1 hop", "2 hops", "3 or more hops"]
    used = sorted({hop for hop in step if hop is not None})
    groups = [Group(names[hop], *STEPS[hop]) for hop in used]
    place: dict[int | None, int] = {hop: i for i, hop in enumerate(used)}
    if None in step:
        place[None] = len(groups)
        groups.append(Group("unknown hops", *NEUTRAL))
    return groups, [place[hop] for hop in step]
