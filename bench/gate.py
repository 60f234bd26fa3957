"""Speed is refused while the tests of what is timed are red."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.machine import ROOT

TIMEOUT_S = 600


class Gate:
    """Runs test files, each once in its life, and remembers the verdicts."""

    def __init__(self, root: Path = ROOT, timeout_s: float = TIMEOUT_S) -> None:
        self.root, self.timeout_s = root, timeout_s
        self.verdicts: dict[str, str] = {}  # file: "" for green, else what is red

    def red(self, files: Iterable[str]) -> str:
        """What keeps a suite from being timed: the first failing test of these files, or "" when all pass."""
        files = list(files)
        fresh = [f for f in files if f not in self.verdicts]
        for file in fresh:
            if not (self.root / file).is_file():
                self.verdicts[file] = f"{file} is missing"
        fresh = [f for f in fresh if f not in self.verdicts]
        if fresh:
            self._judge(fresh)
        return next((self.verdicts[f] for f in files if self.verdicts[f]), "")

    def _judge(self, files: list[str]) -> None:
        command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--color=no", "-p", "no:cacheprovider", *files]
        alone = {"OMP_NUM_THREADS": "1", "PYTEST_ADDOPTS": ""}  # small kernels gain nothing from more
        try:
            ran = subprocess.run(
                command, cwd=self.root, capture_output=True, text=True, check=False, timeout=self.timeout_s,
                env={**os.environ, **alone},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            self.verdicts |= dict.fromkeys(files, f"no verdict within {self.timeout_s:.0f} s")
            return
        lines = ran.stdout.splitlines()
        failing = [line.split(" ", 1)[1].split(" - ")[0] for line in lines if line.startswith(("FAILED ", "ERROR "))]
        for file in files:
            self.verdicts[file] = next((name for name in failing if name.split("::")[0] == file), "")
        if ran.returncode and not failing:  # a crash or a usage error names no test
            last = (ran.stderr.strip() or ran.stdout.strip()).splitlines()[-1:]
            self.verdicts |= dict.fromkeys(files, f"pytest ended with {ran.returncode}: {' '.join(last)}")
