"""`python -m bench run | report | compare | check | serve | soak | list`; without a command it is `run`.

Exit status 0: good; 1: refused, slower than before or over a limit; 2: wrong use.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from tercet.errors import TercetError

COMMANDS = ("run", "report", "compare", "check", "serve", "soak", "list")


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or (given[0] not in COMMANDS and given[0] not in ("-h", "--help")):
        given = ["run", *given]
    asked = _parser().parse_args(given)
    try:
        return int(asked.call(asked))
    except TercetError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="time the suites of a configuration")
    run.add_argument("configs", nargs="*", help="TOML files or names in configs/bench; later ones win")
    run.add_argument("--out", type=Path, help="folder of the results; default: runs/bench-<date>")
    run.add_argument(
        "--set", action="append", default=[], metavar="TABLE.SETTING=VALUE", help="one setting, as in TOML"
    )
    run.add_argument("--suites", nargs="+", help="only these, in this order")
    run.set_defaults(call=_run)
    report = commands.add_parser("report", help="make report.md, report.html and plots/*.svg in the folder of a run")
    report.add_argument(
        "folders", nargs="+", type=Path, help="folders of runs on one machine; the pages go to the first"
    )
    report.add_argument("--out", type=Path, help="another folder for the pages")
    report.set_defaults(call=_report)
    compare = commands.add_parser("compare", help="fail where the second run is slower beyond the noise")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    compare.add_argument("--threshold", type=float, default=0.10, help="share by which a median may grow")
    compare.add_argument(
        "--across-machines", action="store_true", help="compare multiples of each run's reference workload"
    )
    compare.set_defaults(call=_compare)
    check = commands.add_parser("check", help="small ratios beside plain torch in this process, against limits")
    check.add_argument("configs", nargs="*")
    check.add_argument("--set", action="append", default=[], metavar="TABLE.SETTING=VALUE")
    check.set_defaults(call=_check)
    _serving(commands)
    commands.add_parser("list", help="suites, configurations and the tests that gate each suite").set_defaults(
        call=_list
    )
    return parser


def _serving(commands: Any) -> None:
    """`serve` and `soak`."""
    serve = commands.add_parser("serve", help="latency and rate of a served engine under load")
    serve.add_argument("--store", type=Path, help="a store instead of a synthetic workload; needs --queries")
    serve.add_argument("--queries", type=Path, help="JSON lines with a 'query', 'question' or 'text' each")
    serve.add_argument("--encoder", help="instead of the store's")
    serve.add_argument("--texts", action="store_true", help="send texts instead of vectors")
    serve.add_argument("--workload", default="uniform:100k:500k", help="KIND:NODES:EDGES")
    serve.add_argument("--dimension", type=int, default=384)
    serve.add_argument("--rates", type=float, nargs="*", default=[], help="queries a second")
    serve.add_argument("--no-find", action="store_true", help="don't look for the largest rate under the bound")
    serve.add_argument("--seconds", type=float, default=5.0, help="of each rate")
    serve.add_argument("--bound-ms", type=float, default=50.0, help="that the p99 must keep")
    serve.add_argument("--max-batch", type=int, default=256)
    serve.add_argument("--max-wait-ms", type=float, default=2.0)
    serve.add_argument("--top-k", type=int, default=5)
    serve.add_argument("--wide", type=int, default=100, help="wide_search_top_k; 0 is every row")
    serve.add_argument("--render", action="store_true", help="let the worker make the answers' texts")
    serve.add_argument("--threads", type=int, default=0, help="0: as torch has it")
    serve.add_argument("--device", default="cpu")
    serve.add_argument("--seed", type=int, default=0)
    serve.add_argument("--json", action="store_true", help="print the summary as JSON at the end")
    serve.add_argument("--out", type=Path, help="folder of the results; default: runs/serve-<date>")
    serve.set_defaults(call=_serve)
    soak = commands.add_parser("soak", help="a served engine under mixed load with updates, every answer checked")
    soak.add_argument("--minutes", type=float, default=5.0)
    soak.add_argument("--nodes", type=int, default=3000)
    soak.add_argument("--rate", type=float, default=200.0, help="requests a second")
    soak.add_argument("--seed", type=int, default=0)
    soak.set_defaults(call=_soak)


def _serve(asked: argparse.Namespace) -> int:
    from bench.serve import Load, run

    load = Load(
        rates=tuple(asked.rates), seconds=asked.seconds, bound_ms=asked.bound_ms, max_batch=asked.max_batch,
        max_wait_ms=asked.max_wait_ms, top_k=asked.top_k, wide=asked.wide, texts=asked.texts, render=asked.render,
        find=not asked.no_find, seed=asked.seed,
    )  # fmt: skip
    out = asked.out or Path("runs") / f"serve-{time.strftime('%Y%m%d-%H%M%S')}"
    return run(load, out, store=asked.store, spec=asked.workload, dimension=asked.dimension, device=asked.device,
               threads=asked.threads, queries=asked.queries, encoder=asked.encoder, as_json=asked.json)  # fmt: skip


def _soak(asked: argparse.Namespace) -> int:
    from bench.soak import show, soak

    found = soak(seconds=60 * asked.minutes, num_nodes=asked.nodes, rate=asked.rate, seed=asked.seed)
    print(show(found))
    return 0 if found.good else 1


def _run(asked: argparse.Namespace) -> int:
    from bench.config import load
    from bench.run import run

    config = load(asked.configs or ["default"], asked.set)
    if asked.suites:
        config["run"]["suites"] = asked.suites
    return run(config, asked.out or Path("runs") / f"bench-{time.strftime('%Y%m%d-%H%M%S')}")


def _report(asked: argparse.Namespace) -> int:
    from bench.records import read
    from bench.report import write

    for path in write([read(folder) for folder in asked.folders], asked.out or asked.folders[0]):
        print(path)
    return 0


def _compare(asked: argparse.Namespace) -> int:
    from bench.compare import compare, show
    from bench.records import read

    found = compare(read(asked.old), read(asked.new), asked.threshold, across=asked.across_machines)
    print(show(found))
    return 1 if found.failed else 0


def _check(asked: argparse.Namespace) -> int:
    from bench.check import check, show
    from bench.config import load

    ratios = check(load(asked.configs, asked.set))
    print(show(ratios))
    return 0 if all(r.good for r in ratios) else 1


def _list(asked: argparse.Namespace) -> int:
    from bench.config import FOLDER
    from bench.suites import NAMES, patterns_of

    for name, what in NAMES.items():
        print(f"{name:10} {what}")
        print(f"{'':10} gated by {' '.join(patterns_of(name)) or 'nothing'}")
    print("configurations:", ", ".join(sorted(p.stem for p in FOLDER.glob("*.toml"))))
    return 0
