"""The replay gate: stored WebJudge runs of others rebuilt from their replies, and every change of one noticed."""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import attempts
import pytest

from rmsweb.bench.judges.asking import Call
from rmsweb.bench.judges.webjudge_parse import HASHES, PLAIN, numbered
from rmsweb.bench.judges.webjudge_records import Records, StoredRun, read_records
from rmsweb.bench.judges.webjudge_replay import (
    Layout,
    check,
    check_all,
    entries,
    habits,
    headings_of,
    layout_of,
    marks_of,
    replay,
    seen_of,
)
from rmsweb.chat import Reply
from rmsweb.errors import DataError

STORED = Path(__file__).parents[3].parent / "shared" / "data" / "webjudge"

CLAUDE, GPT = "GenericAgent-anthropic_claude-3.7-sonnet", "GenericAgent-gpt-4o-2024-11-20"
QWEN, LLAMA = "GenericAgent-Qwen_Qwen2.5-VL-72B-Instruct", "GenericAgent-meta-llama_Llama-3.3-70B-Instruct"
SUCCESSES = {
    ("webjudge-7B", QWEN, "visualwebarena.resized.98"),
    ("webjudge-7B", CLAUDE, "visualwebarena.resized.352"),
    ("webjudge-7B", CLAUDE, "visualwebarena.resized.730"),
    ("webjudge-7B", GPT, "visualwebarena.598"),
    ("webjudge-7B", QWEN, "webarena.343"),
    ("webjudge-7B", QWEN, "webarena.677"),
    ("webjudge-7B", CLAUDE, "webarena.517"),
    ("webjudge-7B", CLAUDE, "webarena.69"),
    ("webjudge-7B", GPT, "webarena.386"),
    ("webjudge-7B", GPT, "webarena.604"),
    ("webjudge-7B", LLAMA, "webarena.517"),
    ("webjudge-7B", QWEN, "workarena.servicenow.multi-chart-min-max-retrieval"),
    ("gpt-4o-2024-11-20", CLAUDE, "assistantbench.improved.validation.20"),
    ("o4-mini", CLAUDE, "visualwebarena.resized.352"),
    ("o4-mini", CLAUDE, "visualwebarena.resized.730"),
    ("o4-mini", GPT, "visualwebarena.426"),
    ("o4-mini", CLAUDE, "webarena.344"),
    ("o4-mini", CLAUDE, "webarena.654"),
    ("o4-mini", GPT, "webarena.126"),
    ("o4-mini", GPT, "webarena.517"),
}
SAID_OTHERWISE = ("o4-mini", GPT, "webarena.677")
"""Says success; upstream's parser reads the word behind a `status:` of the page and stores a failure."""


@lru_cache(maxsize=1)
def records() -> Records:
    if not STORED.is_dir():
        pytest.skip("../shared/data is absent: the stored WebJudge runs cannot be replayed")
    return read_records(STORED)


@lru_cache(maxsize=1)
def layout() -> Layout:
    return layout_of(records().runs)


def name(run: StoredRun) -> tuple[str, str, str]:
    return run.judge, run.agent, run.task_id


# The gate.


def test_every_stored_run_is_rebuilt_from_its_replies() -> None:
    found = check_all(records().runs)
    assert not found, f"{len(found)} mismatches:\n" + "\n".join(map(str, found[:10]))


def test_what_was_replayed_is_what_is_there() -> None:
    found = records()
    assert Counter(run.judge for run in found.runs) == {"webjudge-7B": 60, "o4-mini": 60, "gpt-4o-2024-11-20": 50}
    assert sum(len(run.pictures) for run in found.runs) == 2875
    assert len({name(run) for run in found.runs}) == len(found.runs) == 170
    assert [one.path.name for one in found.skipped] == ["human_annotations.csv"]
    assert {run.answered_by for run in found.runs if run.judge == "webjudge-7B"} == {"gpt-4o-2024-11-20"}
    assert sum(bool(replay(run, layout()).kept.numbers) for run in found.runs) == 44


def test_final_statuses() -> None:
    runs = records().runs
    assert {name(run) for run in runs if run.label == 1} == SUCCESSES
    assert [name(run) for run in runs if run.said is not bool(run.label)] == [SAID_OTHERWISE]


def test_the_marks_of_each_judge_are_found() -> None:
    marks = {judge: marks for (_, judge), marks in marks_of(records().runs).items()}
    assert marks == {"webjudge-7B": PLAIN, "o4-mini": HASHES, "gpt-4o-2024-11-20": HASHES}
    assert all(headings_of([run]) == marks[run.judge] for run in records().runs), "each run alone shows them too"


def test_one_run_gives_the_wording_of_all() -> None:
    given = {layout_of([run]) for run in records().runs if replay(run, layout()).kept.numbers}
    assert given == {layout()}


def test_nothing_stored_is_echoed() -> None:
    for run in records().runs:
        made = replay(run, layout())
        spoilt = replace(
            run,
            pictures=tuple(replace(one, score=9) for one in run.pictures),
            input_text=run.input_text.removesuffix(made.reasons) + numbered(["spoilt"] * len(made.kept.reasons)),
            sent=99,
        )
        again = replay(spoilt, layout())
        assert (again.scores, again.kept, again.reasons, again.text) == (
            made.scores, made.kept, made.reasons, run.input_text,
        )  # fmt: skip


# Changes of a stored run: each must be noticed.


def change_score(run: StoredRun) -> StoredRun | None:
    first = run.pictures[0]
    return replace(run, pictures=(replace(first, score=first.score % 5 + 1), *run.pictures[1:]))


def change_the_digit_of_a_reply(run: StoredRun) -> StoredRun | None:
    for k, one in enumerate(run.pictures):
        if one.score:
            head, mark, tail = one.response.rpartition("Score")
            other = head + mark + tail.replace(str(one.score), str(one.score % 5 + 1))
            return replace(run, pictures=(*run.pictures[:k], replace(one, response=other), *run.pictures[k + 1 :]))
    return None


def change_the_reason_of_a_reply(run: StoredRun) -> StoredRun | None:
    seen, kept = seen_of(run, headings_of([run]))
    for k in kept.numbers:
        one = run.pictures[k]
        other = one.response.replace(seen[k].reason[:5], "Never", 1)
        if other != one.response:
            return replace(run, pictures=(*run.pictures[:k], replace(one, response=other), *run.pictures[k + 1 :]))
    return None


def change_a_reason_of_the_prompt(run: StoredRun) -> StoredRun | None:
    _, kept = seen_of(run, headings_of([run]))
    return prompt(run, run.input_text[:-9] + "x" + run.input_text[-8:]) if kept.reasons else None


def drop_a_reply(run: StoredRun) -> StoredRun | None:
    return replace(run, pictures=run.pictures[:-1])


def drop_a_sent_picture(run: StoredRun) -> StoredRun | None:
    return replace(run, sent=run.sent - 1) if run.sent else None


def send_one_more(run: StoredRun) -> StoredRun | None:
    return replace(run, sent=(run.sent or 0) + 1)


def reorder_kept_pictures(run: StoredRun) -> StoredRun | None:
    seen, kept = seen_of(run, headings_of([run]))
    if len(kept.numbers) < 2 or seen[kept.numbers[0]].reason == seen[kept.numbers[-1]].reason:
        return None
    pictures = list(run.pictures)
    first, last = kept.numbers[0], kept.numbers[-1]
    pictures[first], pictures[last] = pictures[last], pictures[first]
    return replace(run, pictures=tuple(pictures))


def swap_stored_scores(run: StoredRun) -> StoredRun | None:
    low = min(range(len(run.pictures)), key=lambda k: run.pictures[k].score)
    high = max(range(len(run.pictures)), key=lambda k: run.pictures[k].score)
    if run.pictures[low].score == run.pictures[high].score:
        return None
    pictures = list(run.pictures)
    pictures[low] = replace(pictures[low], score=run.pictures[high].score)
    pictures[high] = replace(pictures[high], score=run.pictures[low].score)
    return replace(run, pictures=tuple(pictures))


def break_the_status(run: StoredRun) -> StoredRun | None:
    return replace(run, response=re.sub("status", "state", run.response, flags=re.IGNORECASE))


def flip_a_stored_label(run: StoredRun) -> StoredRun | None:
    return replace(run, stored_label=1 - run.label)


def change_the_key_points(run: StoredRun) -> StoredRun | None:
    return replace(run, key_points=run.key_points.replace("1. ", "1. not ", 1))


def indent_a_key_point(run: StoredRun) -> StoredRun | None:
    points = run.key_points.replace("\n1. ", "\n  1. ", 1)
    return prompt(replace(run, key_points=points), run.input_text.replace(run.key_points, points, 1))


def change_the_goal(run: StoredRun) -> StoredRun | None:
    return replace(run, goal="Never " + run.goal)


def change_a_heading(run: StoredRun) -> StoredRun | None:
    return prompt(run, run.input_text.replace(layout().before_actions, layout().before_actions.upper(), 1))


def change_the_system_message(run: StoredRun) -> StoredRun | None:
    return replace(run, system_msg=run.system_msg + " ", sent_system=run.system_msg + " ")


def change_the_sent_text(run: StoredRun) -> StoredRun | None:
    return replace(run, sent_text=run.input_text + " ")


def drop_the_section_of_snapshots(run: StoredRun) -> StoredRun | None:
    head, mark, _ = run.input_text.rpartition(layout().before_reasons or "")
    return prompt(run, head) if mark else None


def add_a_section_of_snapshots(run: StoredRun) -> StoredRun | None:
    heading = layout().before_reasons or ""
    return None if heading in run.input_text else prompt(run, f"{run.input_text}{heading}1. seen")


def renumber_an_action(run: StoredRun) -> StoredRun | None:
    at = run.input_text.find("\n2. ", run.input_text.find(layout().before_actions))
    return prompt(run, f"{run.input_text[:at]}\n3. {run.input_text[at + 4 :]}") if at > 0 else None


def remove_the_first_action(run: StoredRun) -> StoredRun | None:
    start = run.input_text.find(layout().before_actions) + len(layout().before_actions)
    at = run.input_text.find("\n2. ", start)
    return prompt(run, run.input_text[:start] + run.input_text[at + 1 :]) if at > 0 else None


def prompt(run: StoredRun, text: str) -> StoredRun:
    return replace(run, input_text=text, sent_text=text)


Change = Callable[[StoredRun], StoredRun | None]
CHANGES: list[tuple[Change, int]] = [
    (change_score, 170),
    (change_the_digit_of_a_reply, 165),
    (change_the_reason_of_a_reply, 44),
    (change_a_reason_of_the_prompt, 44),
    (drop_a_reply, 170),
    (drop_a_sent_picture, 44),
    (send_one_more, 170),
    (reorder_kept_pictures, 18),
    (swap_stored_scores, 60),
    (break_the_status, 170),
    (flip_a_stored_label, 170),
    (change_the_key_points, 170),
    (indent_a_key_point, 170),
    (change_the_goal, 170),
    (change_a_heading, 170),
    (change_the_system_message, 170),
    (change_the_sent_text, 170),
    (drop_the_section_of_snapshots, 44),
    (add_a_section_of_snapshots, 126),
    (renumber_an_action, 170),
    (remove_the_first_action, 170),
]


@pytest.mark.parametrize(("change", "least"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
def test_a_changed_run_is_noticed(change: Change, least: int) -> None:
    changed = [other for run in records().runs if (other := change(run)) is not None and other != run]
    assert len(changed) >= least, "the change applies to that many runs"
    unseen = [name(run) for run in changed if not check(run, layout())]
    assert not unseen


def test_a_change_that_only_reaches_the_message_names_what_and_where() -> None:
    run = next(run for run in records().runs if run.sent)
    found = check(replace(run, sent=0), layout())
    assert [one.what for one in found] == ["pictures of the final message"]
    assert str(run.path) in str(found[0]) and "stored '0'" in str(found[0])


def test_one_changed_run_fails_the_gate_and_leaves_the_others() -> None:
    runs = list(records().runs)
    runs[0] = change_score(runs[0]) or runs[0]
    runs[1] = change_a_heading(runs[1]) or runs[1]
    assert {one.path for one in check_all(runs)} == {runs[0].path, runs[1].path}


def test_lists_within_a_reasoning_are_no_actions() -> None:
    for run in records().runs:
        at = run.input_text.rfind(". Reasoning: ") + len(". Reasoning: ")
        nested = numbered([f"item {k}" for k in range(len(run.pictures) + 2)])
        text = f"{run.input_text[:at]}\n{nested}\n{run.input_text[at:]}"
        assert not check(prompt(run, text), layout())


# Pictures and actions: what upstream's script may be given, and what is dropped.


def beside(run: StoredRun) -> StoredRun:
    """The run with one more picture, of which its judge thought little."""
    low = next(p for other in records().runs if other.judge == run.judge for p in other.pictures if p.score == 1)
    return replace(run, pictures=(*run.pictures, low))


def without_a_picture(run: StoredRun) -> StoredRun:
    """The run without the reply to a picture that was not kept: the prompt does not show that one is gone."""
    gone = next(k for k, one in enumerate(run.pictures) if one.score < 3)
    return replace(run, pictures=run.pictures[:gone] + run.pictures[gone + 1 :])


def test_one_dropped_reply_among_all_runs_is_noticed() -> None:
    for at in (0, 60, 169):
        runs = list(records().runs)
        runs[at] = without_a_picture(runs[at])
        found = check_all(runs)
        assert [(one.path, one.what) for one in found] == [(runs[at].path, "number of actions")]
        assert int(found[0].rebuilt) == int(found[0].stored) - 1 == len(runs[at].pictures)


def test_one_more_picture_than_actions_is_a_habit_of_all_runs_and_no_mismatch() -> None:
    runs = [beside(run) for run in records().runs]
    assert check_all(runs) == []
    assert {more for shared in habits(runs, layout()).values() for more in shared or ()} == {1}
    assert [one.what for one in check(runs[0], layout())] == ["number of actions"], "a run alone: a picture for each"
    assert check(runs[0], layout(), beyond=frozenset({0, 1})) == check(runs[0], layout(), beyond=None) == []
    runs[3] = drop_a_reply(drop_a_reply(runs[3]) or runs[3]) or runs[3]
    assert {one.path for one in check_all(runs)} == {runs[3].path}, "dropped from such a run, it is noticed too"


def test_an_action_without_a_picture_is_accepted_where_several_runs_have_one() -> None:
    runs = list(records().runs)
    of_agent = [k for k, run in enumerate(runs) if run.agent == CLAUDE]
    several = [k for k in of_agent if any(one.score < 3 for one in runs[k].pictures)][: len(of_agent) // 4]
    for k in several:
        runs[k] = without_a_picture(runs[k])
    assert len(several) >= 2 and check_all(runs) == []
    shared = habits(runs, layout())
    assert (shared[CLAUDE], shared[QWEN]) == ({0, -1}, {0})


def test_runs_that_share_no_number_are_not_held_to_one() -> None:
    runs = [run for run in records().runs if run.agent == GPT and run.judge == "o4-mini"][:6]
    for k, run in enumerate(runs):
        for _ in range(k):
            run = beside(run)
        runs[k] = run
    assert habits(runs, layout())[GPT] is None and check_all(runs) == []


# Without stored runs of others.


@pytest.mark.parametrize(
    ("block", "count", "found"),
    [
        ("", 0, []),
        ("1. a", 1, ["a"]),
        ("1. a\n2. b", 2, ["a", "b"]),
        ("1. a\n2. b", 3, None),
        ("1. a\n2. b", 0, None),
        ("2. a", 1, None),
        ("1. a. Reasoning: x\n1. p\n2. q\n2. b. Reasoning: y", 2, ["a. Reasoning: x\n1. p\n2. q", "b. Reasoning: y"]),
        ("1. a. Reasoning: x\n2. q", 2, None),
    ],
)
def test_entries_of_a_numbered_block(block: str, count: int, found: list[str] | None) -> None:
    assert entries(block, count) == found


async def judged(
    folder: Path, scores: list[int | str | Reply], verdict: str, form: str = attempts.PICTURE
) -> StoredRun:
    """An attempt judged by our own judge and stored as Online-Mind2Web stores it."""
    images, names = attempts.store(len(scores))
    mode = "Online_Mind2Web" if form == attempts.PICTURE else "general"
    protocol = "rmsweb/webjudge-om2w" if form == attempts.PICTURE else "rmsweb/webjudge-general"
    given = attempts.attempt(names)
    task = given.task.model_copy(update={"goal": "buy a {red} mug"})
    model, calls = attempts.answering(scores, verdict=verdict, form=form), list[Call]()
    found = await attempts.judge_of(protocol, model, images, calls, attempts=1)(given.model_copy(update={"task": task}))
    final = model.calls[-1]
    replies = [call.text for call in calls if call.key.startswith("picture/")]
    clicks = [f"left_click(point=[{k}, 2])" for k in range(len(names) - 1)]
    line = {
        "task_id": "t", "task": task.goal, "action_history": clicks, "thoughts": None,
        "image_judge_record": [
            {"Response": text, "Score": score} for text, score in zip(replies, found.details["scores"], strict=True)
        ],
        "key_points": found.details["key_points"], "input_text": attempts.words(final[1]),
        "system_msg": attempts.words(final[0]), "evaluation_details": {"response": calls[-1].text},
        "predicted_label": found.details["upstream_label"],
    }  # fmt: skip
    if mode == "general":
        line["action_history"] = [*clicks, 'answer(text="12 dollars")']
        line["thoughts"] = [f"thought {k}" for k in range(len(names))]
    path = folder / f"WebJudge_{mode}_eval_m_score_threshold_3_auto_eval_results.json"
    path.write_text(json.dumps(line) + "\n")
    return read_records(path).runs[0]


SHIFTED = "**Reasoning**: the Score box shows 2\n\n**Score**: 5"
EMPTY = "**Reasoning**:\n\n**Score**: 5"


@pytest.mark.parametrize(
    ("scores", "verdict", "kept", "label"),
    [
        ([4, 2, 3], "Status: success", (0, 2), 1),
        ([SHIFTED, 3], "Status: unsuccessful", (1,), 1),
        ([1, 2], "Status: failure", (), 0),
        ([EMPTY, EMPTY], "Status: failure", (0, 1), 0),
        ([EMPTY, 5], "Status: failure", (0, 1), 0),
        ([5] * 60, "Status: success", tuple(range(50)), 1),
    ],
)
async def test_our_own_judge_is_replayed(
    tmp_path: Path, scores: list[int | str | Reply], verdict: str, kept: tuple[int, ...], label: int
) -> None:
    run = await judged(tmp_path, scores, verdict)
    assert check(run) == [] and check_all([run]) == []
    made = replay(run)
    assert made.kept.numbers == kept and made.label == label and made.text == run.input_text
    assert check(replace(run, stored_label=1 - label))[0].what == "predicted label"


async def test_our_general_judge_is_replayed(tmp_path: Path) -> None:
    run = await judged(tmp_path, [5, 1, 3], "Status: success", attempts.HASHES)
    assert (run.mode, headings_of([run])) == ("general", HASHES) and check(run) == []
    assert replay(run, threshold=4).kept.numbers == (0,)


async def test_a_line_of_the_second_layout_has_a_step_for_each_picture(tmp_path: Path) -> None:
    first = await judged(tmp_path, [4, 1, 3], "Status: success")
    line = json.loads(first.path.read_text())
    clicks = line["action_history"]
    steps = [{"action": c, "thought": None, "screenshot": f"{k}.png"} for k, c in enumerate([*clicks, "ANSWER: 12"])]
    line |= {"schema_version": "online-mind2web-v2", "action_history": steps, "agent_final_answer": "12 dollars"}
    first.path.write_text(json.dumps(line) + "\n")
    run = read_records(first.path).runs[0]
    assert (run.actions, run.thoughts, run.shown) == (tuple(clicks), ("None",) * 3, 3)
    assert check_all([run]) == [] and replay(run).text == first.input_text
    gone = check(without_a_picture(run))
    assert [(one.what, one.stored, one.rebuilt) for one in gone] == [("number of pictures", "2", "3")]
    assert check(without_a_picture(first)) == [], "the first layout has no count of its pictures"


async def test_a_reply_without_a_status_is_noticed(tmp_path: Path) -> None:
    run = await judged(tmp_path, [5], "I cannot tell.")
    assert run.stored_label == 0 and [one.what for one in check(run)] == ["status"]


def test_a_prompt_of_another_structure_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x_auto_eval_results.json"
    line = {
        "task_id": "t", "task": "buy", "image_judge_record": [], "key_points": "1. buy", "input_text": "something else",
        "system_msg": "S", "evaluation_details": {"response": "Status: success"},
    }  # fmt: skip
    path.write_text(json.dumps(line))
    run = read_records(path).runs[0]
    with pytest.raises(DataError, match="no stored prompt holds"):
        layout_of([run])
    with pytest.raises(DataError, match="does not hold"):
        replay(run)
    assert [one.what for one in check_all([run])] == ["prompt"]
