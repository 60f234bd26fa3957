"""What the demo prints."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tercet import build
from tercet.demo import sentences, stdlib
from tercet.engine import Engine
from tercet.graph import Graph
from tercet.recall import Recall
from tercet.result import Result

console = Console()


def show_sentences(encoder: str) -> None:
    """The six sentences of Cognee's guide, with a narrow and a wide search side by side."""
    console.rule("[bold]Six sentences as a graph")
    with encoding_bar() as progress:
        engine = build.from_tables(*sentences.tables(), encoder, progress=progress)
    console.print(f"{engine.graph.num_nodes} nodes, {engine.graph.num_edges} edges. [bold]{sentences.QUERY}[/]")
    columns = []
    for wide in (1, 100):
        result = engine.recall([sentences.QUERY], top_k=20, wide_search_top_k=wide, projection="incident")[0]
        counts = result.explain()["counts"]
        table = Table(
            "score", "fact", title=f"wide_search_top_k={wide}", caption=f"fragment of {counts['available']} edges"
        )
        for line, score in list(zip(_lines(result), result.scores, strict=True))[:12]:
            table.add_row(f"{score:.2f}", Text(line))
        columns.append(table)
    grid = Table.grid(padding=(0, 2))
    grid.add_row(*columns)
    console.print(grid)
    strict = {wide: engine.recall([sentences.QUERY], top_k=20, wide_search_top_k=wide)[0] for wide in (1, 100)}
    found = ", ".join(f"{len(r.edges)} triplets ({r.status}) with {wide}" for wide, r in strict.items())
    console.print(f"Above, one matched end is enough. The default projection wants both ends: {found}.")
    best = engine.recall([sentences.QUERY], top_k=2)[0]
    console.print("The context text of the best two, as a language model gets it:")
    console.print(best.text, style="dim", markup=False, highlight=False)


def show_library(encoder: str, count: int, keep: Path | None) -> None:
    """The standard library of this interpreter: a dozen questions, then a batch."""
    console.rule("[bold]This interpreter's standard library as a graph")
    engine, tables = _library(encoder, keep)
    console.print(f"{engine.graph.num_nodes:,} nodes, {engine.graph.num_edges:,} edges")
    got = engine.recall(list(stdlib.QUESTIONS), top_k=3)
    for result in got:
        print_result(result, limit=3, text=False)
    batch = stdlib.questions(count, graph=tables)
    with console.status(f"encoding {count:,} questions"):
        begin = time.perf_counter()
        assert engine.encoder is not None
        vectors = engine.encoder.encode(batch)
        encoded = time.perf_counter() - begin
    engine.recall(batch[:16], vectors=vectors[:16], top_k=10).texts()  # kernels are compiled on their first call
    begin = time.perf_counter()
    answers = engine.recall(batch, vectors=vectors, top_k=10)
    answers.scores  # noqa: B018  the ranking is on the host now
    ranked = time.perf_counter() - begin
    begin = time.perf_counter()
    texts = answers.texts()
    rendered = time.perf_counter() - begin
    _print_speed(answers, encoded, ranked, rendered, sum(map(len, texts)))


def print_result(result: Result, *, limit: int | None = None, text: bool = True, explain: bool = False) -> None:
    """A question, its ranked facts and the context text."""
    console.print(f"[bold cyan]{result.query}[/] [dim]{result.status}{': ' + result.error if result.error else ''}[/]")
    for line, score in list(zip(_lines(result), result.scores, strict=True))[:limit]:
        console.print(f"  [green]{score:7.3f}[/]  ", end="")
        console.print(line, markup=False, highlight=False)
    if explain:
        console.print_json(data=result.explain())
    if text and result.text:
        console.print(result.text, style="dim", markup=False, highlight=False)


@contextmanager
def encoding_bar(quiet: bool = False) -> Iterator[build.Progress | None]:
    """A progress bar for each collection that is encoded; plain silence where nobody looks."""
    if quiet or not console.is_terminal:
        yield None
        return
    bar = Progress(
        TextColumn("encoding {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), console=console,
    )  # fmt: skip
    tasks: dict[str, Any] = {}

    def tell(name: str, done: int, total: int) -> None:
        if name not in tasks:
            tasks[name] = bar.add_task(name, total=total)
        bar.update(tasks[name], completed=done)

    with bar:
        yield tell


def _library(encoder: str, keep: Path | None) -> tuple[Engine, Any]:
    from tercet.store import open as open_store

    with console.status("reading the standard library"):
        nodes, edges = stdlib.tables()
    if keep is not None and (keep / "manifest.json").exists():
        return open_store(keep, encoder=encoder), (nodes, edges)
    edges = {name: column for name, column in edges.items() if name != "edge_text"}  # nine relations, not 29,000 texts
    graph = Graph.from_tables(nodes, edges)
    ids, texts = stdlib.embedding_texts(nodes)
    with encoding_bar() as progress:
        collections = [
            build.encode_collection("name", texts, ids, "node", encoder, progress),
            build.encode_collection(build.RELATIONS, build.key_texts(graph), graph.keys, "relation", encoder, progress),
        ]
    engine = Engine(graph, collections, encoder)
    if keep is not None:
        engine.save(keep)
    return engine, (nodes, edges)


def _lines(result: Result) -> list[str]:
    graph = None
    found = result.recall._group(result.place)
    if found is not None:
        graph = found[0].plan.graph
    out = []
    for edge in result.edges.tolist():
        assert graph is not None
        titles = graph.nodes.column("context_title")
        source, target = titles[int(graph.source[edge])].as_py(), titles[int(graph.target[edge])].as_py()
        out.append(f"{source} --[{graph.triplet(edge)[1]}]--> {target}")
    return out


def _print_speed(answers: Recall, encoded: float, ranked: float, rendered: float, characters: int) -> None:
    count = len(answers)
    table = Table("stage", "seconds", "queries/s", title=f"{count:,} questions in one batch")
    for name, seconds in (("encode", encoded), ("retrieve and rank", ranked), ("context text", rendered)):
        table.add_row(name, f"{seconds:.3f}", f"{count / seconds:,.0f}")
    console.print(table)
    found = sum(s == "ok" for s in answers.status)
    console.print(f"{found:,} of {count:,} found facts; {characters:,} characters of context")
