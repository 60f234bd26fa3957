"""The command line: `tercet demo | build | recall | subgraph | path | info | verify | export | eval | bench`.

Exit status 0: good; 1: the work failed; 2: wrong use.
"""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tercet import cli_build, cli_eval, cli_graph, cli_store

os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin while they wait slow a shared machine down

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
Encoder = Annotated[str, typer.Option(help="Model name, local path, or 'minilm' for the one a package ships.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.command()
def demo(
    questions: Annotated[int, typer.Option(help="Questions in the batch at the end.")] = 1000,
    encoder: Encoder = "minilm",
    keep: Annotated[
        Path | None, typer.Option(help="Save the library's graph as a store, or use the one there.")
    ] = None,
    sentences_only: Annotated[bool, typer.Option(help="Only the six sentences.")] = False,
) -> None:
    """Six sentences, then this interpreter's standard library as a graph, asked real questions."""
    from tercet.demo.show import show_library, show_sentences

    show_sentences(encoder)
    if not sentences_only:
        show_library(encoder, questions, keep)


cli_build.register(app)


@app.command()
def recall(
    store: Annotated[str, typer.Argument(help="Folder of the store, or its URL.")],
    questions: Annotated[list[str] | None, typer.Argument(help="Questions.")] = None,
    queries: Annotated[Path | None, typer.Option(help="JSON lines with a 'query', 'question' or 'text' each.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write results here: .jsonl or .parquet.")] = None,
    top_k: Annotated[int, typer.Option(min=1)] = 5,
    wide_search_top_k: Annotated[int, typer.Option(min=0, help="Candidates a collection; 0 is every row.")] = 100,
    projection: Annotated[str | None, typer.Option(help="induced, incident, full, nodeset, neighborhood.")] = None,
    neighborhood_depth: Annotated[int | None, typer.Option(min=1)] = None,
    node_name: Annotated[list[str] | None, typer.Option(help="Node set; may be given again.")] = None,
    max_context_tokens: Annotated[int | None, typer.Option(min=0)] = None,
    mode: Annotated[str | None, typer.Option(help="native or cognee.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Instead of the store's.")] = None,
    scope: cli_graph.Scope = None,
    explain: Annotated[bool, typer.Option(help="Print every part of every score.")] = False,
    as_json: AsJson = False,
) -> None:
    """Rank the facts that answer each question, and print the context text."""
    import tercet

    ids, texts = _questions(questions or [], queries)
    options: dict[str, Any] = {} if mode is None else {"mode": mode}
    engine = cli_graph.scoped(tercet.open(store, encoder=encoder, **options), scope)
    got = engine.recall(
        texts, top_k=top_k, wide_search_top_k=wide_search_top_k or None, projection=projection,  # type: ignore[arg-type]
        neighborhood_depth=neighborhood_depth, node_name=node_name or None, max_context_tokens=max_context_tokens,
        progress=out is not None and sys.stderr.isatty(),
    )  # fmt: skip
    rows = [_row(i, r, explain) for i, r in zip(ids, got, strict=True)]
    if out is not None:
        _write(out, rows)
        typer.echo(f"{len(rows)} results in {out}; {_speed(got.timings, len(rows))}", err=as_json)
    elif as_json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
    else:
        from tercet.demo.show import print_result

        for result in got:
            print_result(result, explain=explain)
        typer.echo(_speed(got.timings, len(rows)))


cli_graph.register(app)
cli_store.register(app)
cli_eval.register(app)


@app.command()
def info(
    store: Annotated[str, typer.Argument(help="Folder of the store, or its URL.")],
    memory: Annotated[bool, typer.Option("--memory", help="Also what it takes in memory, with a batch.")] = False,
    device: Annotated[str, typer.Option(help="The device that --memory is about.")] = "cpu",
    batch: Annotated[int, typer.Option(min=1, help="Queries of the batch.")] = 256,
    wide_search_top_k: Annotated[int, typer.Option(min=0, help="Candidates a collection; 0 is every row.")] = 100,
    projection: Annotated[str | None, typer.Option(help="As in recall.")] = None,
    as_json: AsJson = False,
) -> None:
    """What a store holds, and with --memory what it will take, without loading it."""
    from tercet import remote
    from tercet.store_files import check_files, read_manifest

    manifest, data = read_manifest(remote.folder_of(store))
    check_files(manifest, data, hashes=False)
    about = {k: manifest[k] for k in ("format", "mode", "encoder", "graph", "collections")}
    about["graph"] = {k: about["graph"][k] for k in ("nodes", "edges", "order")}
    about["bytes"] = sum(f["bytes"] for f in manifest["files"].values())
    plan = None
    if memory:
        from tercet.memory_plan import estimate_memory

        plan = estimate_memory(
            store, device=device, batch=batch, wide_search_top_k=wide_search_top_k or None, projection=projection
        )
        about["memory"] = plan.to_json()
    if as_json:
        print(json.dumps(about))
    else:
        print_about(about, store)
        if plan is not None:
            typer.echo(plan)


@app.command(
    add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)  # fmt: skip
def bench(context: typer.Context) -> None:
    """Run the checkout's benchmark: `python -m bench` with the same arguments."""
    import subprocess

    root = Path(__file__).resolve().parents[2]
    if not (root / "bench" / "__main__.py").is_file():
        typer.secho("tercet bench: the benchmark is part of a checkout of the sources, which this installation isn't "
                    "made from", fg="red", err=True)  # fmt: skip
        raise typer.Exit(2)
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    ran = subprocess.run(
        [sys.executable, "-m", "bench", *context.args], env={**os.environ, "PYTHONPATH": path}, check=False
    )
    raise typer.Exit(ran.returncode)


def main() -> None:
    """Run the command line; errors of Tercet become one line and an exit status."""
    from tercet.errors import InvalidArgument, TercetError

    try:
        app()
    except InvalidArgument as error:
        typer.secho(f"tercet: {error}", fg="red", err=True)
        sys.exit(2)
    except TercetError as error:
        typer.secho(f"tercet: {error}", fg="red", err=True)
        sys.exit(1)


def _questions(given: list[str], file: Path | None) -> tuple[list[str], list[str]]:
    from tercet.errors import InvalidArgument, InvalidData
    from tercet.formats.tables import read_json_lines

    if bool(given) == (file is not None):
        raise InvalidArgument("recall: expected questions or --queries FILE")
    if file is None:
        return [str(i) for i in range(len(given))], given
    ids, texts = [], []
    for line, row in read_json_lines(file):
        text = next((row[k] for k in ("query", "question", "text") if k in row), None) if isinstance(row, dict) else row
        if not isinstance(text, str):
            raise InvalidData(f"{file} line {line}: expected a 'query', 'question' or 'text', got {row!r:.100}")
        ids.append(str(row.get("id", row.get("_id", line))) if isinstance(row, dict) else str(line))
        texts.append(text)
    return ids, texts


def _row(id_: str, result: Any, explain: bool) -> dict[str, Any]:
    row = {
        "id": id_, "query": result.query, "status": result.status, "error": result.error, "text": result.text,
        "triplets": [
            {"source": t.source, "relation": t.relation, "target": t.target, "score": t.score, "edge_text": t.edge_text}
            for t in result.triplets
        ],
    }  # fmt: skip
    return {**row, "explain": result.explain()} if explain else row


def _write(out: Path, rows: list[dict[str, Any]]) -> None:
    from tercet.errors import InvalidArgument

    if out.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), out)
    elif out.suffix in (".jsonl", ".json"):
        with out.open("w", encoding="utf-8") as sink:
            sink.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        raise InvalidArgument(f"--out: expected a .jsonl or .parquet file, got {out}")


def _speed(timings: dict[str, float], queries: int) -> str:
    embed = timings.get("embed", 0.0)
    rest = sum(timings.values()) - embed
    rate = f"{queries / rest:,.0f} queries/s" if rest > 0 else ""
    return f"encoded in {embed:.2f} s, retrieved in {rest:.3f} s ({rate} without encoding)"


def about_engine(engine: Any) -> dict[str, Any]:
    return {
        "graph": {"nodes": engine.graph.num_nodes, "edges": engine.graph.num_edges, "order": engine.graph.order},
        "collections": [
            {"name": c.name, "kind": c.kind, "rows": c.size, "dimension": c.dimension, "index": c.index.kind}
            for c in engine.collections
        ],
        "mode": engine.rules.name,
        "encoder": engine.encoder_name,
    }


def print_about(about: dict[str, Any], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    graph = about["graph"]
    size = f", {about['bytes'] / 1e6:,.1f} MB" if "bytes" in about else ""
    console.print(
        f"[bold]{title}[/]: {graph['nodes']:,} nodes, {graph['edges']:,} edges, mode {about['mode']}, "
        f"encoder {about['encoder']}{size}"
    )
    table = Table("collection", "of", "rows", "dimension", "index")
    for c in about["collections"]:
        table.add_row(c["name"], c["kind"], f"{c['rows']:,}", str(c["dimension"]), c["index"])
    console.print(table)


if __name__ == "__main__":
    main()
