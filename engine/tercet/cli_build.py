"""`tercet build`: from other people's files to a store."""

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tercet.engine import Engine

MODULES = {"cognee": "cognee_store"}  # the others are called as their format, with _ for -
OWN = ("tables", "openie")  # read by functions of their own
KEPT = ("keep", "recompute")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(build)


def build(
    source: Annotated[Path, typer.Argument(help="Folder or file; see --format.")],
    out: Annotated[str, typer.Option("--out", help="Folder of the store, or its URL.")],
    encoder: Annotated[
        str, typer.Option(help="Model name, local path, 'minilm' for the one a package ships, or 'none'.")
    ] = "minilm",
    format: Annotated[str, typer.Option(help="What the source is; auto looks. `--format list` names them.")] = "auto",
    vectors: Annotated[
        str, typer.Option(help="Vectors that come with the source: keep or recompute. openie: a folder of them.")
    ] = "keep",
    dtype: Annotated[str, typer.Option(help="Storage of the vectors: float32 or float16.")] = "float32",
    cache: Annotated[
        Path | None,
        typer.Option(envvar="TERCET_CACHE", help="Folder that keeps encoded vectors: a stopped build goes on."),
    ] = None,
    skip_bad_rows: Annotated[bool, typer.Option(help="Leave out rows that can't be taken, and list them.")] = False,
    cross_tenant: Annotated[
        str, typer.Option(help="Edges between nodes of two datasets (column dataset): error or drop.")
    ] = "error",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Read a graph in any of the known formats, encode its texts, write a store."""
    from tercet.cli import about_engine, print_about
    from tercet.formats.detect import FORMATS, detect

    if format == "list":
        typer.echo("\n".join(sorted(FORMATS)))
        raise typer.Exit
    if format not in ("auto", *FORMATS):
        raise typer.BadParameter(
            f"expected auto or one of {', '.join(sorted(FORMATS))}, got {format!r}", param_hint="--format"
        )
    kind = detect(source) if format == "auto" else format
    if cross_tenant not in ("error", "drop"):
        raise typer.BadParameter(f"expected error or drop, got {cross_tenant!r}", param_hint="--cross-tenant")
    options = {"dtype": dtype, "bad_rows": "skip" if skip_bad_rows else "refuse", "cross_tenant": cross_tenant}
    engine, report = read_source(kind, source, None if encoder == "none" else encoder, vectors, cache, options, as_json)
    engine.save(out)
    about = about_engine(engine)
    if as_json:
        print(json.dumps({"store": out, "format": kind, "report": report, **about}))
    else:
        typer.echo(report)
        print_about(about, out)


def read_source(
    kind: str,
    source: Path,
    encoder: str | None,
    vectors: str,
    cache: Path | None,
    options: dict[str, Any],
    quiet: bool,
) -> tuple["Engine", str]:
    """An engine from a source of a known format, and the report of its import."""
    from tercet import build as made
    from tercet.embedding import EmbeddingCache
    from tercet.embedding.bar import encoding_bar
    from tercet.formats import tables

    if vectors not in KEPT and kind != "openie":
        raise typer.BadParameter(f"expected keep or recompute, got {vectors!r}", param_hint="--vectors")
    kept = None if cache is None else EmbeddingCache(cache)
    with encoding_bar(quiet=quiet) as progress:
        if kind == "openie":
            folder = None if vectors in KEPT else vectors
            engine, read = made.from_openie(source, encoder, vectors=folder, cache=kept, progress=progress)
            return engine, f"{read.report}\n{engine.graph.report}"
        if kind == "tables":
            engine = made.from_tables(*tables.read(source), encoder, cache=kept, progress=progress, **options)
            return engine, str(engine.graph.report)
        importer = import_module(f"tercet.formats.{MODULES.get(kind, kind.replace('-', '_'))}")
        imported = importer.read(source)
        engine = made.from_imported(
            imported, encoder, vectors=vectors, cache=kept, progress=progress, **options,  # type: ignore[arg-type]
        )  # fmt: skip
        return engine, f"{imported.report}\n{engine.graph.report}"
