"""`tercet eval`: judge what a store retrieves, or rankings that others made."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=False, help="Judge what a store retrieves, or rankings that others made.")

Store = Annotated[str | None, typer.Option("--store", help="Folder of the store, or its URL.")]
Queries = Annotated[Path | None, typer.Option("--queries", help="JSON lines (BEIR or our own) or TSV, also .gz.")]
Judged = Annotated[Path | None, typer.Option("--qrels", help="BEIR TSV, TREC, JSON lines with lists of ids; also .gz.")]
Config = Annotated[Path | None, typer.Option("--config", help="TOML: options of `tercet.evaluate`, [modes.<name>].")]
Out = Annotated[Path | None, typer.Option("--out", help="New folder for the results, kept as they come.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a folder that a stopped evaluation left.")]
Partition = Annotated[int | None, typer.Option("--partition", min=1, help="Queries that are kept at a time.")]
Latency = Annotated[int | None, typer.Option("--latency", min=0, help="Queries that are also timed one by one.")]
Cluster = Annotated[str | None, typer.Option("--ray", help="Run on a Ray cluster: its address, auto or local.")]
Actors = Annotated[int, typer.Option("--actors", min=1, help="Engines on that cluster.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no tables.")]
Vectors = Annotated[Path | None, typer.Option("--vectors", help=".npy with a vector a query, instead of encoding.")]
Citations = Annotated[
    Path | None, typer.Option("--citations", help="OpenIE folder: a triplet counts for each passage that holds it.")
]
Prefix = Annotated[str | None, typer.Option("--prefix", help="Of node ids, where the qrels leave it out: passage:")]
Level = Annotated[str | None, typer.Option("--level", help="What the qrels judge: passage, node or triplet.")]
K = Annotated[int | None, typer.Option("--k", min=1, help="Documents of each query that are judged.")]
Gold = Annotated[str | None, typer.Option("--gold", help="Key of the list of relevant ids in JSON lines.")]
Encoder = Annotated[str | None, typer.Option("--encoder", help="Instead of the store's.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def register(app_: typer.Typer) -> None:
    """Add the commands to the command line."""
    app_.add_typer(app, name="eval")


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    store: Store = None,
    queries: Queries = None,
    qrels: Judged = None,
    config: Config = None,
    out: Out = None,
    vectors: Vectors = None,
    citations: Citations = None,
    prefix: Prefix = None,
    level: Level = None,
    k: K = None,
    gold: Gold = None,
    encoder: Encoder = None,
    resume: Resume = False,
    partition: Partition = None,
    latency: Latency = None,
    ray: Cluster = None,
    actors: Actors = 2,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run modes and baselines over queries and judge them; `tercet eval run` is the same."""
    if context.invoked_subcommand is None:
        run(store, queries, qrels, config, out, vectors, citations, prefix, level, k, gold, encoder, resume, partition,
            latency, ray, actors, quiet, as_json)  # fmt: skip


@app.command()
def run(
    store: Store = None,
    queries: Queries = None,
    qrels: Judged = None,
    config: Config = None,
    out: Out = None,
    vectors: Vectors = None,
    citations: Citations = None,
    prefix: Prefix = None,
    level: Level = None,
    k: K = None,
    gold: Gold = None,
    encoder: Encoder = None,
    resume: Resume = False,
    partition: Partition = None,
    latency: Latency = None,
    ray: Cluster = None,
    actors: Actors = 2,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run modes and baselines over queries and judge them.

    Options here win over those of the configuration. Exit status 1 where a mode did not run.
    """
    import tercet
    from tercet.errors import InvalidArgument
    from tercet.evaluate import Qrels as Judgements
    from tercet.evaluate import Queries as Questions
    from tercet.evaluate import evaluate
    from tercet.evaluate.bar import evaluation_bar
    from tercet.evaluate.config import read_config
    from tercet.evaluate.work import check_out
    from tercet.formats import openie

    if store is None or queries is None or qrels is None:
        lacking = [o for o, v in (("--store", store), ("--queries", queries), ("--qrels", qrels)) if v is None]
        raise InvalidArgument(f"tercet eval: expected {', '.join(lacking)}")
    if out is not None:
        check_out(out, resume)
    options: dict[str, Any] = {} if config is None else read_config(config)
    given = {"prefix": prefix, "level": level, "k": k, "gold": gold, "partition": partition, "latency": latency}
    options |= {name: value for name, value in given.items() if value is not None}
    asked = Questions.read(queries, vectors=vectors)
    judged = Judgements.read(qrels, gold=options.pop("gold", "gold"))
    if citations is not None:
        options["citations"] = openie.read(citations).citations
    engine = tercet.open(store, encoder=encoder)
    with evaluation_bar(quiet or as_json) as progress:
        report = evaluate(engine, asked, judged, out=out, resume=resume, ray=ray, actors=actors, progress=progress,
                          **options)  # fmt: skip
    if as_json:
        print(json.dumps(report.summary(), ensure_ascii=False))
    elif not quiet:
        typer.echo(str(report))
        if out is not None:
            typer.echo(f"results in {out}")
    if report.did_not_run:
        raise typer.Exit(1)


@app.command()
def score(
    run: Annotated[Path, typer.Argument(help="TREC run, JSON lines with `retrieved`, or MTEB's predictions.")],
    qrels: Annotated[Path, typer.Argument(help="As for `tercet eval --qrels`.")],
    queries: Queries = None,
    measure: Annotated[
        list[str] | None, typer.Option("--measure", help="Such as nDCG@10, R@5; again for more.")
    ] = None,
    weight: Annotated[str | None, typer.Option("--weight", help="Field of the queries to weigh by.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Field of the queries to slice by.")] = None,
    missing: Annotated[
        str, typer.Option("--missing", help="What absent queries count as: zero, skip, error.")
    ] = "zero",
    repeats: Annotated[
        str, typer.Option("--repeats", help="Documents twice in a list of JSON lines: error or first.")
    ] = "error",
    gold: Gold = None,
    as_json: AsJson = False,
) -> None:
    """Judge rankings that somebody made, without running anything."""
    from tercet.errors import InvalidArgument
    from tercet.evaluate import DEFAULT_MEASURES, read_run, read_runs, score_run
    from tercet.evaluate import Qrels as Judgements
    from tercet.evaluate import Queries as Questions
    from tercet.evaluate.lines import ending

    if repeats not in ("error", "first"):
        raise InvalidArgument(f"--repeats: expected error or first, got {repeats!r}")
    judged = Judgements.read(qrels, gold=gold or "gold")
    asked = None if queries is None else Questions.read(queries)
    runs = read_runs(run, repeats=repeats) if ending(run) == ".jsonl" else {"": read_run(run)}  # type: ignore[arg-type]
    for one in runs.values():
        made = score_run(
            one, judged, measures=measure or DEFAULT_MEASURES, queries=asked, weight=weight,
            missing=missing,  # type: ignore[arg-type]
        )  # fmt: skip
        parts = {} if by is None else made.slices(by)
        if as_json:
            print(json.dumps(made.summary() | ({"slices": {k: {"n": e.n, "means": e.means} for k, e in parts.items()}}
                                               if parts else {}), ensure_ascii=False))  # fmt: skip
            continue
        typer.echo(str(made))
        for value, part in parts.items():
            means = ", ".join(f"{m} {v:.4f}" for m, v in part.means.items())
            typer.echo(f"  {by}={value}: {part.n} queries: {means}")


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="Folder of a run, which the other one is compared with.")],
    b: Annotated[Path, typer.Argument(help="Folder of a run.")],
    mode: Annotated[
        list[str] | None, typer.Option("--mode", help="Mode of A=mode of B, or one name; again for more.")
    ] = None,
    measure: Annotated[
        list[str] | None, typer.Option("--measure", help="Such as nDCG@10, R@5; again for more.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two runs by their folders: what differs in settings, in quality, in the rankings."""
    from tercet.evaluate import compare_folders

    pairs = None if not mode else [_pair(m) for m in mode]
    made = compare_folders(a, b, modes=pairs, measures=measure or None)
    typer.echo(json.dumps(made.summary(), ensure_ascii=False) if as_json else str(made))


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a run.")],
    html: Annotated[
        Path | None, typer.Option("--html", help="Where the page goes; default: report.html inside.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the summary of a run and write its page, one HTML file that needs nothing else."""
    from tercet.evaluate import read_summary
    from tercet.evaluate.folder import MARKDOWN
    from tercet.evaluate.page import page
    from tercet.evaluate.parts import write_bytes

    summary = read_summary(folder)
    file = html if html is not None else folder / "report.html"
    write_bytes(file, page(folder).encode())
    typer.echo(json.dumps(summary, ensure_ascii=False) if as_json else (folder / MARKDOWN).read_text(encoding="utf-8"))
    typer.echo(f"page in {file}", err=True)


def _pair(text: str) -> tuple[str, str]:
    """The modes of A and B that are meant: "a=b" or one name. Names of sweeps hold = inside of brackets."""
    depth = 0
    for i, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if sign == "=" and depth == 0:
            return text[:i], text[i + 1 :]
    return text, text
