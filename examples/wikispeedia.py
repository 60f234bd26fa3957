"""Articles of a small Wikipedia and the links between them, asked for subgraphs and routes.

    python examples/wikispeedia.py FOLDER --out wikispeedia.store

FOLDER holds the Wikispeedia graph: `articles.jsonl.gz` (name, title, categories, text) and `links.tsv.gz`. The store is
then good for `tercet subgraph` and `tercet path`.
"""

import argparse
import gzip
import json
from pathlib import Path

import tercet

SHOWN = 300  # characters of an article that are encoded and kept


def read(folder: Path) -> tercet.Graph:
    """The articles with their categories as labels, and their links."""
    with gzip.open(folder / "articles.jsonl.gz", "rt", encoding="utf-8") as file:
        articles = [json.loads(line) for line in file]
    with gzip.open(folder / "links.tsv.gz", "rt", encoding="utf-8") as file:
        links = [line.rstrip("\n").split("\t") for line in file]
    nodes = {
        "id": [a["name"] for a in articles],
        "name": [a["title"] for a in articles],
        "description": [a["text"].split("Related subjects: ")[-1].split(". ", 1)[-1][:SHOWN] for a in articles],
        "labels": [sorted({c.split(".")[1].replace("_", " ") for c in a["categories"]}) for a in articles],
    }
    edges = {"source": [s for s, _ in links], "target": [t for _, t in links], "relation": ["links to"] * len(links)}
    return tercet.Graph.from_tables(nodes, edges)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("wikispeedia.store"))
    parser.add_argument("--encoder", default="minilm")
    asked = parser.parse_args()
    graph = read(asked.folder)
    titles = graph.nodes.column("name").to_pylist()
    print(f"{graph}; encoding {len(titles):,} titles")
    names = tercet.Collection.build("title", texts=titles, owner=graph.ids, encoder=asked.encoder)
    engine = tercet.Engine(graph, [names], encoder=asked.encoder)
    engine.save(asked.out)

    found = engine.hybrid_subgraph(["sailing ships of the Vikings", "how plants make sugar from light"], k=5, expand=1,
                                   max_nodes=25)  # fmt: skip
    for sub in found:
        print(f"\n{sub.query}: {[node.title for node in sub.nodes]}")
        print("central:", [h["node"].title for h in engine.centrality("pagerank", graph=sub, limit=5)])
    routes = engine.path_context(["Roman Empire", "Vikings", "Battle of Hastings"], k=1, joined=True, max_paths=3)
    for path in routes[0].paths:
        print(" → ".join(graph.nodes.column("name")[graph.row(i)].as_py() for i in path))


if __name__ == "__main__":
    main()
