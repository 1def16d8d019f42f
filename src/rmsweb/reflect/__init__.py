"""Part 1: reflection-conditioned retries.

attempt -> judge -> reflect -> retry (`collect`), then what to imitate (`samples`). `explorer` is the embedded
collection policy, `reflector` writes the reflections, `leaks` finds guidance that shows through.
"""
