"""Makes `foreign` (folders in other projects' formats) importable for the tests of the formats."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
