"""Brings Cytoscape.js into the wheel; everything else is in pyproject.toml."""

import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithLibrary(build_py):
    """Fetches the library of the HTML pictures first; without npm the package is built without it, and says so."""

    def run(self) -> None:
        script = Path(__file__).parent / "engine" / "tercet" / "pictures" / "fetch.py"
        if not self.editable_mode and subprocess.run([sys.executable, str(script)], check=False).returncode:
            self.warn("no HTML pictures in this build: Cytoscape.js could not be fetched")
        super().run()


setup(cmdclass={"build_py": WithLibrary})
