"""The nouns: one frozen record each, one JSON line on disk. No I/O.

Every stage reads and writes these and nothing else. A pixel is a CSS pixel of the recorded viewport; an image is
named by its SHA-256 in the run's image store; a coordinate in an `Action` is always in pixels (the model's own
scheme is a property of the profile, see actions.py).
"""

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from rmsweb.actions import Action, Point

SCHEMA = 1
"""Version of the record formats; a change here makes old runs unreadable and has to say so."""


class Record(BaseModel):
    """Frozen, closed; unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Box(Record):
    """A rectangle in CSS pixels of the viewport."""

    x: float
    y: float
    width: float
    height: float

    def contains(self, point: Point, grow: float = 1.0) -> bool:
        """Whether the point lies in the box scaled by `grow` about its middle."""
        dx, dy = self.width * grow / 2, self.height * grow / 2
        return abs(point.x - self.x - self.width / 2) <= dx and abs(point.y - self.y - self.height / 2) <= dy


class Element(Record):
    """Something on the page that can be acted on or read, as the browser's own script saw it."""

    role: Literal["link", "button", "input", "select", "checkbox", "text", "other"]
    name: str
    box: Box
    value: str = ""
    frame: str = ""
    """URL of the frame it is in; empty in the main frame."""
    selector: str = ""
    """A path that names the element within its document, for 'the same element' comparisons."""
    covered: bool = False
    """Another element lies over its middle."""


class Task(Record):
    """What the agent is asked to do. Never carries a reference answer: checks live with the suite."""

    id: str
    suite: str
    site: str
    template: str
    split: Literal["train", "dev", "heldout", "heldout_template", "typed", "exam"]
    goal: str
    seed: int = 0
    start_url: str = ""
    """Empty for suites that serve their own pages."""
    max_steps: int = 15
    meta: dict[str, JsonValue] = Field(default_factory=dict)


class Observation(Record):
    """What the page was at one moment."""

    image: str
    """SHA-256 of the screenshot (PNG, viewport only)."""
    url: str
    title: str = ""
    tabs: tuple[str, ...] = ()
    """Titles (or URLs) of open tabs, in order."""
    tab: int = 0
    """Index of the tab that is shown."""
    messages: tuple[str, ...] = ()
    """What the browser has to say: dialogs, downloads, refused addresses, what got the click, 'nothing moved'."""
    elements: tuple[Element, ...] | None = None
    blank: bool = False
    """The screenshot has one single colour even after the settle wait, and the page was not scrolled there."""
    status: int | None = None
    """HTTP status of the document that is shown."""


class ParseFault(Record):
    """Why a reply is no action: `kind` is one of the ParseErrorKind values of actions.py."""

    kind: str
    message: str


class Decision(Record):
    """One reply of a policy: what it thought, which line it named, what it wants done."""

    thought: str = ""
    intent: str = ""
    """The `Action:` line: one imperative line or, in the compact profile, the label of the target."""
    action: Action | None = None
    """None when the reply could not be read (see `fault`)."""
    raw: str = ""
    fault: ParseFault | None = None
    repairs: tuple[str, ...] = ()
    token_ids: tuple[int, ...] | None = None
    """Sampled completion ids, end mark included; None where the endpoint gives none."""
    logprobs: tuple[float, ...] | None = None
    """Log-probability of each sampled id under the sampling distribution (natural log)."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    truncated: bool = False


class Write(Record):
    """A request that may have changed something on a server."""

    method: str
    url: str
    status: int | None = None
    stopped: bool = False
    """It was held back by the irreversible-act rule."""


class Effect(Record):
    """What carrying out one action did, as far as the browser can tell."""

    hit: Element | None = None
    """The element that got the pointer or the text."""
    changed: bool = False
    """The page differs after the action: URL, tabs or picture."""
    moved: int | None = None
    """Pixels that a scroll moved something; None for other actions."""
    writes: tuple[Write, ...] = ()
    downloads: tuple[str, ...] = ()
    value: str | None = None
    """Final value of the field that was typed into or chosen from."""
    error: str = ""
    """Why the action had no effect (unknown key, refused address ...); the page is still usable."""


class Step(Record):
    """Observation, decision, effect, and the observation after it."""

    index: int
    before: Observation
    decision: Decision
    effect: Effect
    after: Observation


class Stop(StrEnum):
    """Why an episode ended. The end is no verdict: an answer may be wrong, a step limit may come after success."""

    ANSWERED = "answered"
    """The policy answered or said that it is done."""
    GAVE_UP = "gave_up"
    """The policy terminated with status failure."""
    STEP_LIMIT = "step_limit"
    """The task's step limit was reached."""
    DONE = "done"
    """The suite itself ended the episode (MiniWoB++)."""
    NO_PROGRESS = "no_progress"
    """The same action on the same picture again and again."""
    INVALID_OUTPUT = "invalid_output"
    """Too many replies in a row that are no action."""
    BLOCKED = "blocked"
    """A bot wall, a login wall or an access error; never fought, only labelled."""
    INVALID_TASK = "invalid_task"
    """The task cannot be done as given (no start page, date passed)."""
    MODEL_ERROR = "model_error"
    """The policy's model could not be reached or refused; an infra error."""
    BROWSER_ERROR = "browser_error"
    """The browser broke or hung; an infra error."""
    BUDGET = "budget"
    """The token or time budget of the run was used up before the end."""


INFRA_STOPS = frozenset({Stop.MODEL_ERROR, Stop.BROWSER_ERROR, Stop.BUDGET})
"""Ends that say nothing about the policy: redone, never judged, mined or rewarded."""


class Verdict(Record):
    """What a judge says of a trajectory. `success` None means it could not tell, which is never a failure."""

    success: bool | None
    judge: str
    reason: str = ""
    first_error: int | None = None
    """Step index of the first harmful step, where the judge names one."""
    unjudged: str = ""
    """Why it could not tell: no_verdict, refused, overflow, missing_evidence, truncated, infra."""
    trajectory_id: str = ""
    """Set in verdicts.jsonl: the trajectory that was judged. A later line of the same one replaces an earlier."""
    details: dict[str, JsonValue] = Field(default_factory=dict)
    """What a protocol says beyond yes and no: `upstream_label` (what the upstream script would store, 1, 0 or None),
    `pictures` (numbers of the screenshots that were sent), rubric scores ..."""


class Outcome(StrEnum):
    """Typed outcome of an attempt (method.md 1.2)."""

    SUCCESS = "success"
    FAILURE = "failure"
    OVER_BUDGET = "over_budget"
    BLOCKED = "blocked"
    INVALID_TASK = "invalid_task"
    INFRA_ERROR = "infra_error"
    JUDGE_FAILED = "judge_failed"


class Trajectory(Record):
    """One episode."""

    id: str
    """`task#attempt`, with `arm/` in front where a run has several arms."""
    task: Task
    attempt: int = 0
    policy: str = ""
    steps: tuple[Step, ...] = ()
    answer: str | None = None
    stop: Stop
    detail: str = ""
    """What the stop does not say: the error's text, the reason of a block."""
    advice: str = ""
    """Guidance the policy was given (reflections); never part of a training sample."""
    evidence: dict[str, JsonValue] = Field(default_factory=dict)
    """What the suite's server recorded (cart, posts, raw reward): a rule judge needs this and no browser."""
    viewport: tuple[int, int] = (1280, 800)
    scale: float = 1.0
    """Device scale factor; screenshots are always taken at CSS scale."""
    coordinates: str = "qwen3vl"
    """The policy's coordinate scheme (a profile name of actions.py)."""
    browser: str = ""
    seed: int = 0
    wall_s: float = 0.0
    tagged: tuple[str, ...] = ()
    """Safety tags: injected, write_stopped, refused_address."""


class Reflection(Record):
    """What a failed or wasteful attempt teaches; length-capped; never sees a reference answer."""

    trajectory_id: str
    outcome: Outcome
    first_bad_step: int | None = None
    code: str = "unknown"
    """Failure code of mine/taxonomy.toml."""
    evidence: tuple[int, ...] = ()
    """Step indices the diagnosis rests on."""
    cause: str = ""
    lesson: str = ""
    plan: str = ""
    author: str = ""
    hints: dict[str, JsonValue] = Field(default_factory=dict)
    """Machine-readable part for the embedded explorer: words to avoid, to prefer, flags."""


class FailureMode(Record):
    """A kind of failure, counted over a run."""

    code: str
    count: int
    share: float
    success: float | None = None
    """Success rate of the trajectories in which it occurs."""
    examples: tuple[str, ...] = ()
    trained: bool = True
    """False for environment and invalid-task modes, which are reported and never trained on."""


class ReferenceAction(Record):
    """An action that is known to be right at a state, with how it is known."""

    action: Action
    intent: str = ""
    thought: str = ""
    hit: Element | None = None
    source: Literal["retry", "sibling", "teacher", "self"] = "teacher"


class CriticalState(Record):
    """A state where the policy goes wrong, or a routine state drawn beside it (id `traj@step`)."""

    id: str
    task: Task
    history: tuple[Step, ...]
    now: Observation
    references: tuple[ReferenceAction, ...] = ()
    """Verified acceptable actions; the first is a+. Empty: kept for evaluation, never trained on."""
    failing: Action | None = None
    mode: str = "routine"
    detectors: tuple[str, ...] = ()
    success: float | None = None
    """The policy's success rate on this task."""
    weight: float = 1.0


class Fate(StrEnum):
    """What became of a group (method.md 3)."""

    ACCEPTED = "accepted"
    ANCHORED = "anchored"
    DROPPED = "dropped"


class Candidate(Record):
    """One sampled reply of a group."""

    raw: str
    action: Action | None = None
    fault: str = ""
    reward: float | None = None
    """None when an infra or judge failure left it without a reward: removed before the gate."""
    advantage: float = 0.0
    match: dict[str, float] = Field(default_factory=dict)


class Group(Record):
    """G candidates of one state and what the gate said of them."""

    state_id: str
    step: int
    candidates: tuple[Candidate, ...]
    label: Literal["accepted", "all_fail", "low", "all_pass", "no_contrast", "too_few"]
    fate: Fate
    reason: str = ""


class TrainSample(Record):
    """One supervised step: what an unreflected policy would have seen and should say."""

    id: str  # `traj@step`
    task: Task
    history: tuple[Step, ...]
    now: Observation
    decision: Decision
    weight: float = 1.0
    source: str = ""


class Score(Record):
    """One number with everything needed to know what it is. What a run never recorded keeps its default."""

    name: str
    policy: str
    suite: str
    split: str
    n: int  # episodes asked for, tasks times runs: the first denominator
    successes: int
    judged: int  # episodes with a verdict: the second denominator
    outcomes: dict[str, int] = Field(default_factory=dict)  # `Outcome` and `missing`; they add up to `n`
    marks: dict[str, int] = Field(default_factory=dict)
    """Across the outcomes: ran, no_answer, blocked, captcha, step_limit, claimed, claimed_not_done; steps_unknown,
    tokens_unknown, seconds_unknown: left out of every mean of them."""
    unjudged: dict[str, int] = Field(default_factory=dict)  # why the judge could not tell -> episodes
    success: float | None  # over all; None where nothing was judged: no rate is no zero
    interval: tuple[float, float] | None
    """95 %: Wilson for one run of each task, a bootstrap over tasks for several."""
    success_judged: float | None = None
    interval_judged: tuple[float, float] | None = None
    success_upstream: float | None = None
    """Over all: what the protocol's upstream script would store as 1. None: it has no such reading."""
    labelled_upstream: int = 0  # episodes that it would have labelled at all
    success_finished: float | None = None
    """As Fara's webeval averages: aborted and unjudged left out, over the step limit 0; over `finished` episodes."""
    finished: int = 0
    steps_on_solved: float | None = None
    steps_with_end: bool = True  # the final answer or terminate counts as a step
    by_template: dict[str, tuple[int, int]] = Field(default_factory=dict)  # template -> (successes, episodes played)
    breakdown: dict[str, dict[str, tuple[int, int]]] = Field(default_factory=dict)
    """site, template, level, segment -> value -> (successes, episodes asked for)."""
    tokens: int | None = None  # of the episodes that recorded them; None: none did
    wall_s: float | None = None  # likewise
    judge: str = ""  # its whole name: protocol, model, prompt hash, pictures
    protocol: str = ""
    judge_model: str = ""
    viewport: tuple[int, int] | None = None
    observation: str = ""
    temperature: float | None = None  # of the policy; None: not recorded, as for imported runs
    top_p: float | None = None
    seed: int | None = None
    dataset: str = ""  # hash of the task ids
    texts: str = ""  # hash of task ids and goals: other wording or dates give another one
    version: str = ""  # of the task set, where ids and texts are those of a known one
    task_file: str = ""  # SHA-256 of the file that the tasks came from, 16 digits
    tasks: int = 0
    tasks_of: int | None = None  # tasks in that file, where fewer were asked for
    step_cap: tuple[int, int] | None = None  # smallest and largest limit of the tasks
    runs: int = 1  # of each task, the most where they differ
    least_runs: int | None = None  # the fewest, where they differ
    by_run: tuple[float, ...] = ()  # success over all tasks of each run
    unstable: float | None = None  # share of tasks whose verdict differs between runs
    pass_at: dict[int, tuple[float, float, float]] = Field(default_factory=dict)
    """k -> unbiased pass@k and its 95 % bounds, over all tasks."""
    excluded: dict[str, str] = Field(default_factory=dict)  # tasks left out -> why
    contamination: dict[str, int] | None = None  # overlap with training tasks; None: not recorded
    extra: dict[str, Any] = Field(default_factory=dict)
