"""Makes `small_stall` importable for the tests of Part 1."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
