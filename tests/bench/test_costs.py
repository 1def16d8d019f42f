"""Cost of attempts: what is not recorded is unknown, prices have a day, judges are paid apart."""

import json
from pathlib import Path

import pytest
from specimens import task, trajectory, verdict

from rmsweb.bench import costs, metrics, plots
from rmsweb.bench.judges.asking import Call
from rmsweb.bench.protocols import judge_use
from rmsweb.config import Config
from rmsweb.records import Stop, Trajectory, Verdict
from rmsweb.store import Images, Run

DATA = Path(__file__).parents[3] / "shared" / "data" / "webjudge"


def imported(ident: str, won: bool = True, **facts: object) -> Trajectory:
    one = task(0).model_copy(update={"id": ident, "suite": "imported"})
    evidence = {"imported": {"format": "agentlab", **facts}}
    return Trajectory.model_validate({"id": f"{ident}#0", "task": one, "stop": Stop.DONE, "evidence": evidence})


def rows(*trajectories: Trajectory, won: bool = True) -> list[metrics.Result]:
    said = Verdict(success=won, judge="j")
    return [metrics.result_of("m", t, said) for t in trajectories]


def test_a_recorded_cost_of_zero_beside_tokens_is_unknown() -> None:
    paid = imported("a", cost=0.5, prompt_tokens=900, completion_tokens=100, n_steps=7)
    free = imported("b", cost=0.0, prompt_tokens=900, completion_tokens=100, n_steps=3)
    idle = imported("c", cost=0.0, n_steps=0)
    assert [r.cost for r in rows(paid, free, idle)] == [0.5, None, 0.0]
    whole = costs.cost(rows(paid, idle))
    assert (whole.money_per_task, whole.money_per_success, whole.money_by) == (0.25, 0.25, "record")
    part = costs.cost(rows(paid, free))
    assert (part.money_per_task, part.money_by, part.money_unknown, part.episodes) == (None, "", 1, 2)
    priced = costs.cost(rows(paid, free), (1.0, 10.0))
    assert priced.money_per_task == pytest.approx((1800 + 2000) / 2e6) and priced.money_by == "prices"
    assert (part.steps_per_task, part.tokens_per_task) == (5, 1000)
    for odd in (True, "0.3", None, -1.0, {"a": 1}):
        assert rows(imported("d", cost=odd, prompt_tokens=5))[0].cost is None


def test_a_price_is_found_by_the_model_or_its_policy(tmp_path: Path) -> None:
    t = trajectory(Images(tmp_path), task(0), 2, model="Qwen/Qwen3-VL-8B-Instruct", arm="rl")
    row = metrics.result_of("rl", t, verdict(t, True))
    prices = {"Qwen/Qwen3-VL-8B-Instruct": (1.0, 2.0)}
    assert costs.price_of(prices, "rl", row.policy) == (1.0, 2.0)
    assert costs.price_of(prices, "rl") is None and costs.price_of(None, "rl") is None


def test_the_judge_is_paid_apart(tmp_path: Path) -> None:
    with Run.open(tmp_path / "j", "judge", Config()) as run:
        for k in range(3):
            run.append(
                "call",
                Call(
                    trajectory_id="t", protocol="webjudge/om2w:o4-mini:prompt=1", key=f"picture/{k}", prompt="0" * 16,
                    text="Score: 3", pictures=1, prompt_tokens=1000, completion_tokens=100,
                ),
            )  # fmt: skip
    use = judge_use(Run.read_only(tmp_path / "j"), {"o4-mini": (1.0, 10.0)})["webjudge/om2w:o4-mini:prompt=1"]
    assert (use.calls, use.pictures, use.prompt_tokens, use.completion_tokens) == (3, 3, 3000, 300)
    assert use.money == pytest.approx(0.006)
    assert judge_use(Run.read_only(tmp_path / "j"))["webjudge/om2w:o4-mini:prompt=1"].money is None


def test_the_pareto_front() -> None:
    points = {"cheap": (1.0, 0.2), "good": (5.0, 0.8), "both": (3.0, 0.7), "beaten": (4.0, 0.6), "alike": (3.0, 0.7)}
    assert plots.front(points) == ["cheap", "both", "alike", "good"]
    assert plots.front({"dear": (2.0, 0.5), "same": (1.0, 0.5)}) == ["same"]


def test_costs_of_the_stored_agents() -> None:
    if not DATA.exists():
        pytest.skip(f"../shared/data is absent: {DATA}")
    found: dict[str, dict[tuple[str, str], Trajectory]] = {}
    for path in sorted(DATA.rglob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        info = (record.get("trajectory_info") or {}).get("summary_info")
        if not info:
            continue
        facts = {
            "n_steps": info["n_steps"],
            "cost": info["stats.cum_cost"],
            "prompt_tokens": info["stats.cum_input_tokens"],
            "completion_tokens": info["stats.cum_output_tokens"],
        }
        of = found.setdefault(record["agent"], {})
        of[record["benchmark"], path.stem] = imported(path.stem, **facts)
    assert len(found) == 4
    for agent, by_task in found.items():
        one = costs.cost(rows(*by_task.values()))
        assert one.tokens_per_task and one.steps_per_task
        if "claude" in agent:
            assert one.money_by == "record" and one.money_per_task and one.money_per_task > 0.05
        else:  # recorded as 0 throughout
            assert one.money_per_task is None and one.money_unknown == len(by_task)
