"""python -m bench.quality fit | report"""

import argparse
from pathlib import Path

from bench.machine import ROOT
from bench.quality.fit import fit
from bench.quality.report import report
from bench.quality.sets import SETS

CONFIG = ROOT / "configs" / "eval" / "multihop.toml"
CACHE = ROOT / "runs" / "vectors"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fitting = commands.add_parser("fit", help="fit the weights of the multi-hop search on the tuning questions")
    fitting.add_argument("--out", type=Path, default=CONFIG)
    reporting = commands.add_parser("report", help="judge all ways of retrieving on the other questions")
    reporting.add_argument("--half", choices=("test", "tune"), default="test")
    reporting.add_argument("--settings", type=Path, default=None, help="a TOML file; default: what the package has")
    reporting.add_argument("--out", type=Path, default=None, help="a folder for run folders and the tables as JSON")
    for sub in (fitting, reporting):
        sub.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
        sub.add_argument("--vectors", type=Path, default=CACHE, help="a cache for vectors that the data doesn't have")
    given = parser.parse_args()
    if given.command == "fit":
        fit(given.sets, given.vectors, given.out)
    else:
        report(given.sets, given.vectors, given.half, given.settings, given.out)


if __name__ == "__main__":
    main()
