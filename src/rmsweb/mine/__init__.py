"""Part 2: failure-mode mining. Where the policy goes wrong, why, what would have been right, what to train on.

locate (detectors) -> label (taxonomy.toml) -> fix (verified references) -> pool -> sample; `stage.run` ties them to a
run directory. Imports neither of the other two parts: they meet in files.
"""
