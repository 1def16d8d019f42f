"""Trajectories and training data in other projects' formats: names -> reader, writer.

`import_runs` makes a run directory of a foreign folder, `export_runs` writes a run in a foreign layout. A foreign
verdict is kept apart from ours (`imported:<file>`), a foreign action is a line unless it maps onto one of ours for
certain, and what a format cannot hold stands in its module. Never unpickles, never reads outside the folder that was
named.
"""

from rmsweb.bench.formats.exporting import export_runs
from rmsweb.bench.formats.importing import import_runs
from rmsweb.bench.formats.registry import FORMATS, Format, names

__all__ = ["FORMATS", "Format", "export_runs", "import_runs", "names"]
