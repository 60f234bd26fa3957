"""Communities: groups of nodes with many edges among them, and the words of their texts."""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tercet.analyse import igraph_graph
from tercet.analyse.flat import Flat, attribute, flatten, group_pairs
from tercet.errors import InvalidArgument

ALGORITHMS = {"louvain": "louvain", "greedy": "greedy", "lpa": "lpa", "label_propagation": "lpa"}
SCORINGS = ("tfidf", "frequency")
WORD = re.compile(r"[^\W\d_]+")  # a run of letters
SHORTEST = 3  # letters of a word

Text = str | Mapping[Any, str | None] | Callable[[Any], str | None]


@dataclass(frozen=True)
class Community:
    """A group of nodes; made by `communities`."""

    id: int  # place in the list
    nodes: list[Any]  # keys, ascending
    size: int
    terms: list[str]  # best first
    label: str | None  # the terms joined


def communities(
    graph: Any,
    algorithm: str = "louvain",
    *,
    weight: str | None = None,
    resolution: float = 1.0,
    seed: int | None = None,
    min_size: int = 1,
    label_terms: int = 0,
    text: Text = "text",
    label_scoring: str = "tfidf",
    stopwords: Collection[str] | None = None,
) -> list[Community]:
    """The communities of a graph, largest first, equal sizes in the order they were found in.

    Directions are dropped, parallel and opposite edges add up, self loops are left out. networkx finds them; for a
    `tercet.Graph`, and for other graphs above some thousand nodes, igraph, which may split differently.

    Args:
        graph: a `tercet.Graph`, a networkx (multi)graph, or an object with `to_networkx(directed=...)`.
        algorithm: "louvain", "greedy" (greedy modularity) or "lpa" = "label_propagation".
        weight: name of the edges' weight, missing values are 1; see `flatten`.
        resolution: above 1 for more and smaller communities; of louvain and, in networkx, of greedy.
        seed: the same partition for the same seed and graph; None: louvain and lpa vary.
        min_size: smaller communities are left out.
        label_terms: how many terms a community gets.
        text: the nodes' texts: an attribute's name (of networkx nodes, or of their attribute `properties`; of a
            `tercet.Graph` a column of the nodes), a mapping by node key, or a function of it.
        label_scoring: "tfidf": a word's share of the community's words times ln(communities / those with it + 1);
            "frequency": its count. Ties are alphabetical; words are runs of three letters or more, in lower case.
        stopwords: words that are no terms.

    Raises:
        InvalidArgument: an argument outside the above.
        MissingDependency: igraph is needed.
    """
    if algorithm not in ALGORITHMS:
        raise InvalidArgument(f"algorithm: expected one of {', '.join(map(repr, ALGORITHMS))}, got {algorithm!r}")
    if label_scoring not in SCORINGS:
        raise InvalidArgument(f"label_scoring: expected one of {', '.join(map(repr, SCORINGS))}, got {label_scoring!r}")
    for name, value in (("min_size", min_size), ("label_terms", label_terms)):
        if value < 0:
            raise InvalidArgument(f"{name}: expected at least 0, got {value!r}")
    if not 0 < resolution < math.inf:
        raise InvalidArgument(f"resolution: expected a number above 0, got {resolution!r}")
    flat = flatten(graph, False, weight)
    find = _by_igraph if flat.is_large else _by_networkx
    groups = find(flat, ALGORITHMS[algorithm], resolution, seed) if flat.size else []
    groups = sorted((g for g in groups if len(g) >= min_size), key=len, reverse=True)  # stable
    place = flat.places()
    nodes = [flat.names(g[np.argsort(place[g])]) for g in groups]
    terms = _terms(flat, nodes, text, label_terms, label_scoring, stopwords) if label_terms else [[]] * len(nodes)
    return [
        Community(i, members, len(members), words, ", ".join(words) or None)
        for i, (members, words) in enumerate(zip(nodes, terms, strict=True))
    ]


def _by_networkx(flat: Flat, algorithm: str, resolution: float, seed: int | None) -> list[np.ndarray]:
    import networkx as nx
    from networkx.algorithms import community

    graph = nx.Graph()
    keys = flat.keys  # not rows: the order among equal sizes, and a seed's partition, depend on them
    graph.add_nodes_from(keys)
    weights = np.ones(len(flat.source)) if flat.weight is None else flat.weight
    for u, v, w in zip(flat.source.tolist(), flat.target.tolist(), weights.tolist(), strict=True):
        if u != v:
            held = graph.get_edge_data(keys[u], keys[v], {"weight": 0.0})
            graph.add_edge(keys[u], keys[v], weight=held["weight"] + w)
    if algorithm == "louvain":
        found = community.louvain_communities(graph, weight="weight", resolution=resolution, seed=seed)
    elif algorithm == "greedy":
        found = community.greedy_modularity_communities(graph, weight="weight", resolution=resolution)
    else:
        found = community.asyn_lpa_communities(graph, weight="weight", seed=seed)
    row = {key: i for i, key in enumerate(keys)}
    return [np.array([row[key] for key in nodes], np.int64) for nodes in found]


def _by_igraph(flat: Flat, algorithm: str, resolution: float, seed: int | None) -> list[np.ndarray]:
    if algorithm != "louvain" and resolution != 1.0:
        raise InvalidArgument(f"resolution: expected 1 with {algorithm!r} on a large graph, got {resolution!r}")
    low, high = np.minimum(flat.source, flat.target), np.maximum(flat.source, flat.target)
    weight = np.ones(len(low)) if flat.weight is None else flat.weight
    keep = (low != high) & (weight > 0)
    low, high, weight = group_pairs(low[keep], high[keep], weight[keep], flat.size, np.add)
    ends = np.stack([low, high], axis=1)
    member = igraph_graph.memberships(flat.size, ends, weight, algorithm, resolution, seed)
    order = np.argsort(member, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(member[order])) + 1)


def _terms(
    flat: Flat, groups: Sequence[Sequence[Any]], text: Text, num_terms: int, scoring: str,
    stopwords: Collection[str] | None,
) -> list[list[str]]:  # fmt: skip
    read = _reader(flat, text)
    stopped = {word.lower() for word in stopwords or ()}
    counts = [Counter(word for key in nodes for word in _words(read(key)) if word not in stopped) for nodes in groups]
    holding = Counter(word for count in counts for word in count)
    out = []
    for count in counts:
        total = count.total()
        score = {
            word: n if scoring == "frequency" else n / total * math.log(len(groups) / holding[word] + 1)
            for word, n in count.items()
        }
        out.append(sorted(score, key=lambda word: (-score[word], word))[:num_terms])
    return out


def _words(text: Any) -> list[str]:
    return [w for w in WORD.findall(text.lower()) if len(w) >= SHORTEST] if isinstance(text, str) else []


def _reader(flat: Flat, text: Text) -> Callable[[Any], Any]:
    """The text of a node by its key."""
    if callable(text):
        return text
    if isinstance(text, Mapping):
        return text.get
    if flat.graph is None:
        return lambda key: attribute(flat.origin.nodes[key], text)
    if text not in flat.graph.nodes.schema.names:
        raise InvalidArgument(f"text: expected a column of the nodes, a mapping or a function, got {text!r}")
    column = flat.graph.nodes.column(text).cast(pa.large_string()).to_pylist()
    return dict(zip(flat.keys.to_pylist(), column, strict=True)).get  # type: ignore[union-attr]
