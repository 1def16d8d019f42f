"""The in-process executor: order, bound, what an error does."""

import asyncio

import pytest

from rmsweb.executor import LocalExecutor


async def test_results_keep_the_items_order_and_the_bound() -> None:
    running = most = 0

    async def work(item: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001 * (7 - item))
        running -= 1
        return item * item

    assert await LocalExecutor(3).map(work, range(7)) == [i * i for i in range(7)]
    assert most == 3
    assert await LocalExecutor(5).map(work, []) == []


async def test_an_error_stops_what_has_not_started_and_lets_the_rest_end() -> None:
    ended: list[int] = []

    async def work(item: int) -> None:
        await asyncio.sleep(0.001 * item)
        if item == 1:
            raise KeyError(item)
        ended.append(item)

    with pytest.raises(KeyError):
        await LocalExecutor(3).map(work, range(1, 9))
    assert ended == [2, 3]


def test_at_least_one_place() -> None:
    with pytest.raises(ValueError, match="at least one place"):
        LocalExecutor(0)
