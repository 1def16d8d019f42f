"""Our own trajectories with odd texts, for round trips."""

from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from specimens import VIEWPORT, picture

from rmsweb import actions as act
from rmsweb.actions import Action, Answer, Point, Terminate
from rmsweb.config import Config
from rmsweb.records import Decision, Effect, Observation, ParseFault, Step, Stop, Task, Trajectory
from rmsweb.store import Images, Run

ODD = [
    "",
    "]",
    "[x]",
    "a\nb",
    "ANSWER; 42",
    "Action: ANSWER",
    "Thought: Action: x\nAction: y",
    "<image>",
    "\u2028",
    "\x00",
]
ODD += [
    "Please interact with it",
    "Now given a task:",
    'q"uote',
    "\\",
    "é😀",
    "ANSWER [a] b]",
    "; ;",
    " x ",
    "<no_answer>",
    "\r\n",
]
TEXT = st.one_of(st.sampled_from(ODD), st.text(max_size=30), st.lists(st.sampled_from(ODD), max_size=3).map(" ".join))
NAMES = st.text("abcXYZ019-_ .", min_size=1, max_size=12).filter(lambda s: s == s.strip(" .") and s[0] not in ".-")


def actions(text: st.SearchStrategy[str]) -> st.SearchStrategy[Action]:
    """Actions that do not end an episode."""
    point = st.builds(Point, x=st.integers(0, 319), y=st.integers(0, 223))
    some = st.one_of(st.none(), point)
    return st.one_of(
        st.builds(act.LeftClick, point=point),
        st.builds(act.DoubleClick, point=point),
        st.builds(act.Type, text=text, point=some, press_enter=st.booleans(), clear_first=st.booleans()),
        st.builds(act.Scroll, dy=st.integers(-900, 900), dx=st.integers(-2, 2), point=some),
        st.builds(act.Drag, point=point, start=some),
        st.builds(act.Key, keys=st.just(("Control", "a"))),
        st.builds(act.Wait, seconds=st.sampled_from([0.5, 1.0, 5.0])),
        st.builds(act.Goto, url=text),
        st.builds(act.WebSearch, query=text),
        st.builds(act.SelectOption, point=point, text=text),
        st.builds(act.Memorize, fact=text),
        st.builds(act.SwitchTab, tab=st.integers(0, 3)),
        st.builds(act.CloseTab, tab=st.one_of(st.none(), st.integers(0, 3))),
        st.builds(act.NewTab, url=text),
        st.just(act.GoBack()),
    )


@st.composite
def episodes(draw: st.DrawFn) -> dict[str, Any]:
    """What `build` needs."""
    end = draw(st.sampled_from(["answer", "terminate", "none"]))
    return {
        "task_id": draw(NAMES),
        "goal": draw(TEXT.filter(str.strip)),
        "moves": draw(st.lists(st.tuples(actions(TEXT), TEXT), max_size=4)),
        "faults": draw(st.sets(st.integers(0, 3))),
        "end": end,
        "last": (draw(TEXT), draw(TEXT)),
    }


def build(images: Images, made: dict[str, Any]) -> Trajectory:
    """A whole trajectory: moves, replies that were no action before some of them, and an end."""
    shas = [images.put(picture(f"page {k}")) for k in range(10)]
    decisions: list[Decision] = []
    for k, (action, thought) in enumerate(made["moves"]):
        if k in made["faults"]:
            decisions.append(Decision(raw="?", fault=ParseFault(kind="no_call", message="none")))
        decisions.append(Decision(action=action, thought=thought, prompt_tokens=7, completion_tokens=3))
    answer, thought = made["last"]
    stop = Stop.STEP_LIMIT
    if made["end"] == "answer":
        decisions.append(Decision(action=Answer(text=answer), thought=thought))
        stop = Stop.ANSWERED
    elif made["end"] == "terminate":
        decisions.append(Decision(action=Terminate(status="failure", text=answer), thought=thought))
        stop = Stop.GAVE_UP
    seen = [Observation(image=shas[k % 10], url=f"http://127.0.0.1/{k}") for k in range(len(decisions) + 1)]
    steps = [
        Step(index=k, before=seen[k], decision=d, effect=Effect(changed=True), after=seen[k + 1])
        for k, d in enumerate(decisions)
    ]
    task = Task(id=made["task_id"], suite="sites", site="s", template="t", split="exam", goal=made["goal"])
    return Trajectory(
        id=f"m/{task.id}#0",
        task=task.model_copy(update={"start_url": "http://127.0.0.1/"}),
        policy="m",
        steps=tuple(steps),
        answer=answer if made["end"] == "answer" else None,
        stop=stop,
        viewport=VIEWPORT,
        wall_s=2.5,
    )


def run_with(path: Path, made: list[dict[str, Any]]) -> tuple[Path, list[Trajectory]]:
    with Run.open(path, "eval", Config()) as run:
        found = [build(run.images, one) for one in made]
        for trajectory in found:
            run.append("trajectory", trajectory)
        run.finish()
    return path, found
