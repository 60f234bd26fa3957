"""`python -m bench`."""

import os
import sys

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin while they wait slow a shared machine down

from bench.cli import main

sys.exit(main())
