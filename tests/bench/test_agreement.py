"""Agreement of judges with people: the confusion table, both denominators, whose label counts, what joins."""

import random
from pathlib import Path

import pytest

from rmsweb.bench.agreement import agreement, breakdown, f1, human_agreement, join, settle, success_rates
from rmsweb.bench.labels import NOT_EXECUTABLE, UNSURE, Judgement, Label, read_labels
from rmsweb.errors import ConfigError
from rmsweb.statistics import wilson

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"


def label(key: str, said: bool | str | None, annotator: str = "", **facts: str) -> Label:
    note = said if isinstance(said, str) else UNSURE if said is None else ""
    return Label(key, annotator, said if isinstance(said, bool) else None, str(said), note, **facts)


def judged(key: str, said: bool | None, upstream: int | None = None, **facts: str) -> Judgement:
    return Judgement("j", key, said, "" if said is not None else "no_verdict", upstream, **facts)


def pairs(rows: list[tuple[bool | None, bool]], upstream: int | None = None, tasks: int = 0):  # type: ignore[no-untyped-def]
    """(judge, human) rows; `tasks`: how many tasks they share, default one each."""
    labels = [label(f"t{i}", human, task_id=f"t{i % tasks if tasks else i}") for i, (_, human) in enumerate(rows)]
    said = [judged(f"t{i}", says, upstream if says is None else None) for i, (says, _) in enumerate(rows)]
    return join(said, labels).pairs


TABLE = [(True, True)] * 8 + [(True, False)] * 2 + [(False, True)] * 3 + [(False, False)] * 17
SILENT = [(None, True)] * 4 + [(None, False)] * 6


def test_every_rate_of_a_known_table() -> None:
    found = agreement(pairs(TABLE))
    assert found["confusion"] == {
        "judged_success": {"success": 8, "failure": 2}, "judged_failure": {"success": 3, "failure": 17},
        "could_not_judge": {"success": 0, "failure": 0},
    }  # fmt: skip
    rates = found["unjudged_as_failure"]
    assert rates == found["unjudged_left_out"] and "as_upstream" not in found
    wanted = {
        "accuracy": (25, 30), "precision": (8, 10), "recall": (8, 11), "false_positive_rate": (2, 19),
        "false_negative_rate": (3, 11),
    }  # fmt: skip
    for name, (count, of) in wanted.items():
        rate = rates[name]
        assert (rate["count"], rate["of"], rate["value"]) == (count, of, count / of)
        assert rate["interval"] == list(wilson(count, of)) and "interval_by_task" not in rate
    assert rates["f1"]["value"] == pytest.approx(16 / 21)
    observed, expected = 25 / 30, (10 * 11 + 20 * 19) / 900
    assert rates["kappa"]["value"] == pytest.approx((observed - expected) / (1 - expected))
    low, high = rates["kappa"]["interval"]
    assert 0.2 < low < rates["kappa"]["value"] < high <= 1
    assert rates["success_rate"]["gap"] == pytest.approx(-1 / 30)


def test_could_not_judge_is_a_row_of_its_own_and_both_denominators_are_there() -> None:
    found = agreement(pairs(TABLE + SILENT))
    assert found["confusion"]["could_not_judge"] == {"success": 4, "failure": 6}
    assert found["could_not_judge"] == {"no_verdict": 10}
    as_failure, left_out = found["unjudged_as_failure"], found["unjudged_left_out"]
    assert (as_failure["n"], left_out["n"]) == (40, 30)
    assert (as_failure["recall"]["count"], as_failure["recall"]["of"]) == (8, 15)
    assert as_failure["accuracy"]["count"] == 31 and left_out["accuracy"]["count"] == 25


def test_what_upstream_stores_for_a_missing_verdict_is_a_third_reading() -> None:
    found = agreement(pairs(TABLE + SILENT, upstream=1))
    assert found["as_upstream"]["precision"]["of"] == 20 and found["as_upstream"]["recall"]["count"] == 12
    assert "as_upstream" not in agreement(pairs(TABLE + SILENT, upstream=0)), "0 is what failure is"


def test_nothing_to_divide_by_is_none_and_never_zero() -> None:
    rates = agreement(pairs([(False, False)] * 5))["unjudged_as_failure"]
    assert rates["precision"]["value"] is rates["recall"]["value"] is rates["recall"]["interval"] is None
    assert rates["kappa"] == {"value": None, "interval": None} and rates["f1"]["value"] is None
    empty = agreement(())
    assert empty["n"] == 0 and empty["unjudged_left_out"]["accuracy"]["value"] is None
    assert f1(0, 1, 0, 3) == 0.0


def test_tasks_that_several_agents_share_are_drawn_together_and_said() -> None:
    draw = random.Random(0)
    hard = [draw.random() < 0.5 for _ in range(20)]
    rows = [(hard[i % 20], True) for i in range(200)]
    alone, together = agreement(pairs(rows)), agreement(pairs(rows, tasks=20))
    assert not alone["clustered"] and together["clustered"] and together["tasks"] == 20
    width = {}
    for name, found in (("alone", alone), ("together", together)):
        low, high = found["unjudged_as_failure"]["f1"]["interval"]
        width[name] = high - low
    assert width["together"] > 2 * width["alone"]
    rate = together["unjudged_as_failure"]["recall"]
    assert rate["interval_by_task"][0] < rate["interval"][0] < rate["interval"][1] < rate["interval_by_task"][1]


VOTES = [
    label("same", True, "A"), label("same", True, "B"),
    label("tied", False, "A"), label("tied", True, "B"),
    label("two of three", False, "A"), label("two of three", True, "B"), label("two of three", True, "C"),
    label("unsure first", None, "A"), label("unsure first", True, "B"),
    label("not run", NOT_EXECUTABLE, "A"),
    label("nobody knows", None, "A"),
]  # fmt: skip


def test_whose_label_counts_is_explicit() -> None:
    said = {
        rule: {one.key: settle([one], "all").labels[0] for one in settle(VOTES, rule).labels}
        for rule in ("first", "majority")
    }  # type: ignore[var-annotated]
    assert {key: one.success for key, one in said["first"].items()} == {
        "same": True, "tied": False, "two of three": False, "unsure first": None, "not run": None, "nobody knows": None,
    }  # fmt: skip
    assert {key: one.success for key, one in said["majority"].items()} == {
        "same": True, "tied": None, "two of three": True, "unsure first": True, "not run": None, "nobody knows": None,
    }  # fmt: skip
    every = settle(VOTES, "all")
    assert len(every.labels) == 10, "each vote is one comparison; who knows nothing stays one row without a label"
    assert settle(VOTES, "first").undecided == ("unsure first", "nobody knows")
    assert settle(VOTES, "majority").undecided == ("tied", "nobody knows")
    for rule in ("first", "majority", "all"):
        found = settle(VOTES, rule)  # type: ignore[arg-type]
        assert (found.several, found.contradictory, found.ties) == (4, ("tied", "two of three"), ("tied",))
        assert found.not_executable == 1
    with pytest.raises(ConfigError, match="first, majority, all"):
        settle(VOTES, "last")  # type: ignore[arg-type]


def test_a_tied_label_is_reported_with_what_was_judged() -> None:
    said = [judged(key, True) for key in ("same", "tied", "not run")]
    found = join(said, settle(VOTES, "majority").labels)
    assert {pair.label.key: pair.human for pair in found.pairs} == {"same": True, "not run": False}
    assert found.undecided == ("tied",)
    assert found.without_judgement == ("two of three", "unsure first", "nobody knows")
    both = join(said, settle(VOTES, "all").labels)
    assert [pair.human for pair in both.pairs if pair.label.key == "tied"] == [False, True]


def test_people_among_themselves_by_pair() -> None:
    rows = [("A", "B", True, True)] * 6 + [("B", "A", False, True)] * 2 + [("A", "C", False, False)] * 4
    votes = [
        one
        for i, (a, b, x, y) in enumerate([*rows, ("A", "B", None, True)])
        for one in (label(f"t{i}", x, a), label(f"t{i}", y, b))
    ]
    found = human_agreement([*votes, label("alone", True, "A")])
    assert (found["trajectories"], found["pairs"], found["agree"], found["left_out_unsure"]) == (13, 12, 10, 1)
    assert found["kappa"] == pytest.approx((10 / 12 - 1 / 2) / (1 - 1 / 2))
    ab, ac = found["annotators"]
    assert (ab["a"], ab["b"], ab["pairs"], ab["agree"]) == ("A", "B", 8, 6) and ab["kappa"] == 0.0
    assert (ac["pairs"], ac["agreement"], ac["kappa"]) == (4, 1.0, None)
    assert human_agreement([label("a", True)])["pairs"] == 0


def test_joining_by_task_agent_and_benchmark() -> None:
    labels = [
        label("Browser_Use/t1", True, agent="Browser_Use", task_id="t1"),
        label("SeeAct/t1", False, agent="SeeAct", task_id="t1"),
        label("t2", True, task_id="t2"),
        label("web/X/t3", True, agent="X", benchmark="web", task_id="t3"),
        label("shop/X/t3", False, agent="X", benchmark="shop", task_id="t3"),
    ]
    said = [
        judged("r/t1#0", True, agent="browser-use", task_id="t1"),
        judged("t1#1", True, task_id="t1"),
        judged("any/t2#0", False, agent="whoever", task_id="t2"),
        judged("t3#0", True, agent="X", benchmark="Shop", task_id="t3"),
        judged("t9#0", True, task_id="t9"),
        judged("other/t1#0", True, agent="Other", task_id="t1"),
    ]
    found = join(said, labels)
    assert {pair.judgement.key: pair.label.key for pair in found.pairs} == {
        "r/t1#0": "Browser_Use/t1", "any/t2#0": "t2", "t3#0": "shop/X/t3",
    }  # fmt: skip
    assert found.ambiguous == ("t1#1",) and found.without_label == ("t9#0", "other/t1#0")
    assert found.without_judgement == ("web/X/t3",)


def test_two_attempts_at_one_labelled_task_are_ambiguous() -> None:
    found = join([judged(f"t#{i}", True, task_id="t") for i in range(2)], [label("t", True, task_id="t")])
    assert not found.pairs and found.ambiguous == ("t#0", "t#1")
    by_id = join([judged(f"t#{i}", True, task_id="t") for i in range(2)], [label("t#1", True)])
    assert [pair.judgement.key for pair in by_id.pairs] == ["t#1"]


def test_breakdown_weighs_every_agent_alike() -> None:
    labels = [label(f"{agent}{i}", True, agent=agent) for agent, n in (("A", 9), ("B", 1)) for i in range(n)]
    said = [judged(one.key, one.agent == "A") for one in labels]
    found = breakdown(join(said, labels).pairs, "agent")
    assert {name: part["n"] for name, part in found["parts"].items()} == {"A": 9, "B": 1}
    assert found["mean_over_parts"]["unjudged_as_failure"] == {"mean_accuracy": 0.5, "mean_absolute_gap": 0.5}
    assert breakdown(pairs(TABLE), "agent") == {}, "nobody is named"


def test_six_published_success_rates_by_level_with_label_two_in_the_denominator() -> None:
    if not (DATA / "online_mind2web").exists():
        pytest.skip("../shared/data is absent: online_mind2web is not there")
    rows = (DATA / "online_mind2web" / "2025-06.ids.tsv").read_text().splitlines()[1:]
    level = dict(row.split("\t")[:2] for row in rows)
    found = success_rates(
        read_labels(DATA / "online_mind2web" / "human_label.json").labels, lambda one: level[one.task_id]
    )
    published = {
        "Operator": (61.3, 83.1, 58.0, 43.2, 10), "Claude_Computer_Use_3.7": (56.3, 90.4, 49.0, 32.4, 7),
        "SeeAct": (30.7, 60.2, 25.2, 8.1, 0), "Browser_Use": (30.0, 55.4, 26.6, 8.1, 1),
        "Claude_Computer_Use_3.5": (29.0, 56.6, 20.3, 14.9, 0), "Agent-E": (28.0, 49.4, 26.6, 6.8, 2),
    }  # fmt: skip
    assert set(found) == set(published)
    for agent, (*rates, not_executable) in published.items():
        groups = [found[agent][name] for name in ("all", "easy", "medium", "hard")]
        assert [n for _, n, _ in groups] == [300, 83, 143, 74]
        assert [round(100 * won / n, 1) for won, n, _ in groups] == rates
        assert groups[0][2] == not_executable == sum(apart for _, _, apart in groups[1:])


def test_two_annotators_of_agentrewardbench() -> None:
    if not (DATA / "webjudge").exists():
        pytest.skip("../shared/data is absent: webjudge is not there")
    labels = read_labels(DATA / "webjudge" / "human_annotations.csv").labels
    found = human_agreement(labels)
    assert (found["trajectories"], found["pairs"], found["agree"], found["left_out_unsure"]) == (106, 105, 93, 1)
    assert found["kappa"] == pytest.approx(0.755, abs=5e-4)
    assert {(p["a"], p["b"]): p["pairs"] for p in found["annotators"]} == {
        ("A", "D"): 22, ("A", "F"): 20, ("A", "H"): 3, ("B", "C"): 20, ("B", "F"): 20, ("C", "D"): 20,
    }  # fmt: skip
    first, majority = settle(labels, "first"), settle(labels, "majority")
    assert len(first.labels) == len(majority.labels) == 1302
    assert (len(first.undecided), len(majority.undecided), len(first.ties)) == (1, 12, 12)
