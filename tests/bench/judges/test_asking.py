"""Questions that are asked together: order, bound, and what one failure does to the others."""

import asyncio
from functools import partial

from rmsweb.bench.judges.asking import Asker, Pictures


class Ladder:
    """Question k is answered the later the smaller k is; some fail."""

    def __init__(self, concurrency: int, *fails: int) -> None:
        self.asker = Asker(None, Pictures({}), concurrency=concurrency)
        self.fails, self.begun, self.done = fails, list[int](), list[int]()
        self.now = self.most = 0

    async def ask(self, number: int) -> int:
        self.begun.append(number)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01 * (6 - number))
        self.now -= 1
        if number in self.fails:
            raise ValueError(f"question {number}")
        self.done.append(number)
        return number * number


async def test_answers_stand_in_the_order_of_the_questions_and_the_bound_holds() -> None:
    for concurrency in (1, 3, 6):
        ladder = Ladder(concurrency)
        found = await ladder.asker.together([partial(ladder.ask, k) for k in range(6)])
        assert found == [0, 1, 4, 9, 16, 25] and ladder.most == concurrency
        assert (ladder.done == sorted(ladder.done)) is (concurrency == 1), "they come in another order"


async def test_the_bound_holds_over_all_trajectories() -> None:
    ladder = Ladder(2)
    questions = [partial(ladder.ask, k) for k in range(4)]
    await asyncio.gather(ladder.asker.together(questions), ladder.asker.together(questions))
    assert ladder.most == 2


async def test_a_failure_ends_what_is_under_way_and_begins_nothing() -> None:
    ladder = Ladder(2, 1)
    found = await ladder.asker.together([partial(ladder.ask, k) for k in range(6)])
    assert ladder.begun == [0, 1] and found[0] == 0 and found[2:] == [None] * 4
    assert isinstance(found[1], ValueError) and ladder.done == [0]
    assert await ladder.asker.together([]) == []
