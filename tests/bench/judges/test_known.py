"""The self-test before a paid run: every protocol passes it, a broken one does not."""

import pytest

from rmsweb.bench.judges import names
from rmsweb.bench.judges.known import Known, self_test
from rmsweb.config import JudgeConfig
from rmsweb.errors import RunError


@pytest.mark.parametrize("protocol", ["rmsweb/chat", *(name for name in names() if name.startswith("rmsweb/"))])
async def test_every_protocol_in_our_wording_knows_success_from_failure(protocol: str) -> None:
    await self_test(JudgeConfig(protocol=protocol))


async def test_a_judge_that_cannot_tell_them_apart_is_stopped() -> None:
    broken = {"webvoyager/osu": Known("SUCCESS", "SUCCESS")}
    with pytest.raises(RunError, match=r"\[True, True\], not as \[True, False\]"):
        await self_test(JudgeConfig(protocol="rmsweb/webvoyager-osu"), broken)
