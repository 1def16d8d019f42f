"""Part three, Salvage-DS: polarized reward, gated groups, action-only anchor (docs/method.md).

match, reward, gate and anchor are pure; prefix and trainer hold the engine; stage runs it all on a run directory.
"""
