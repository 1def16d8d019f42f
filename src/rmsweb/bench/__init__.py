"""THE EXAM: the same tasks for every model, numbers with intervals, one report.

`statistics` and `metrics` are pure; `exam` runs models on tasks; `report` makes one HTML file of any run directories.
"""
