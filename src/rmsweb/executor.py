"""Where work runs. Owns the seam and the in-process executor.

Promises: results in the order of the items, at most `limit` at a time, and that the first error stops what has not
started, lets what runs come to its end and is then raised. Never knows what the work is.

A cluster (Ray actors that hold a browser each) fits behind `Executor`; none is shipped yet.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Executor(Protocol):
    """Runs one coroutine function over many items."""

    async def map(self, fn: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
        """`fn` of every item; results in the items' order."""
        ...


class LocalExecutor:
    """This process, one event loop, `limit` items at a time. Items are drawn from the iterable as places free up."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"an executor needs at least one place, got {limit}")
        self.limit = limit

    async def map(self, fn: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
        waiting = iter(enumerate(items))
        results: dict[int, R] = {}
        errors: list[Exception] = []

        async def work() -> None:
            for index, item in waiting:
                try:
                    results[index] = await fn(item)
                except Exception as error:  # attributed below: raised once the items that run have ended
                    errors.append(error)
                if errors:
                    return

        async with asyncio.TaskGroup() as group:
            for _ in range(self.limit):
                group.create_task(work())
        if errors:
            raise errors[0]
        return [results[index] for index in sorted(results)]
