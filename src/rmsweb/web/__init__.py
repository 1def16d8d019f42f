"""THE WORLD: a real browser that a policy looks at and acts in, and the suites of tasks that live in it."""
