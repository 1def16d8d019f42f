"""Makes `attempts` importable for the tests of the WebJudge family."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
