"""Makes `specimens` (synthetic runs) importable for the tests of exam, report and viewer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
