"""Replays recorded cases of another library: `python -m tests.replay cognee|grafito DIR`.

DIR is a case, or a folder of cases. The last line is `N passed, M failed`; the exit status is 1 when a run failed.
"""

import sys
from pathlib import Path

from tests import replay_cognee, replay_grafito
from tests.tally import Tally

LIBRARIES = {"cognee": replay_cognee.replay, "grafito": replay_grafito.replay}


def cases(root: Path) -> list[Path]:
    """The case folders at or under a folder."""
    return [root] if (root / "case.json").exists() else sorted(p.parent for p in root.glob("*/case.json"))


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in LIBRARIES:
        print(f"usage: python -m tests.replay {'|'.join(LIBRARIES)} DIR", file=sys.stderr)
        return 2
    folders = cases(Path(arguments[1]))
    if not folders:
        print(f"no case.json in {arguments[1]} or right below it", file=sys.stderr)
        return 2
    tally = Tally()
    for folder in folders:
        LIBRARIES[arguments[0]](folder, tally)
    for line in tally.failed:
        print("FAILED", line)
    for line in tally.decided:
        print("decided", line)
    print(f"{len(tally.decided)} differ by decision (docs/differences.md), {tally.skipped} skipped")
    print(f"{tally.passed} passed, {len(tally.failed)} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
