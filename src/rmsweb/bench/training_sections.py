"""The report's sections on how a policy was made: collection, fine-tuning, mining, reinforcement learning."""

from collections.abc import Mapping, Sequence
from typing import Any

from rmsweb.bench import metrics, plots
from rmsweb.bench.examples import retry_example
from rmsweb.bench.layout import Chart, Section, Stage, Table
from rmsweb.bench.metrics import YieldPoint
from rmsweb.bench.wording import between, number, percent, signed, signed_interval
from rmsweb.records import Group, Reflection
from rmsweb.statistics import paired_bootstrap

BINS = 32
"""Most points of a curve over training: steps are averaged in bins beyond that."""


def warnings_of(stage: Stage) -> list[str]:
    """What a stage itself says is not as it should be, a sentence each; read from its summary and its settings."""
    s, said = stage.summary, []
    if stage.verb == "rl" and s.get("warning"):
        said.append(str(s["warning"]))
    if stage.verb == "mine" and _is_number(s.get("states")):
        said += _drawn_otherwise(s, stage.manifest["config"].get("mine", {}))
    return [f"{stage.name}: {text}." for text in said]


def _drawn_otherwise(s: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """Where mining could not draw what it was asked for: fewer states, or another share of routine ones."""
    wanted, share, routine = asked.get("states"), asked.get("routine_share"), s.get("routine_share")
    fewer = wanted is not None and s["states"] < wanted
    mined = s.get("sampling", "mined") == "mined"  # a uniform draw takes what share there is
    near = 1 / max(1, s["states"]) + 1e-4  # a count is rounded, and so is its share
    other = mined and share is not None and routine is not None and abs(routine - share) > near
    if not fewer and not other:
        return []
    first = f"{s['states']} states were drawn" + (f" (mine.states asks for {wanted})" if fewer else "")
    return [first + (f", {percent(routine)} of them routine (mine.routine_share: {percent(share)})" if other else "")]


def collect(stages: Sequence[Stage]) -> Section:
    """Yield and steps by attempt of each arm, cost, and the paired difference of two arms."""
    section = Section("collect", "Collection: reflection-conditioned retries")
    arms = {_arm(stage, stages): stage for stage in stages}
    points = {arm: _yield_points(stage) for arm, stage in arms.items()}
    points = {arm: p for arm, p in points.items() if p}
    if not points:
        return section
    rates = {arm: [(p.attempts, p.rate) for p in curve] for arm, curve in points.items()}
    bars = {arm: [p.interval for p in curve] for arm, curve in points.items()}
    section.charts.append(
        Chart(
            "Solved within k attempts", plots.lines(rates, "attempts", bands=bars, marks=True), "Bars: 95 % intervals."
        )
    )
    steps = {
        arm: [(p.attempts, p.steps_of_kept) for p in c if p.steps_of_kept is not None] for arm, c in points.items()
    }
    steps = {arm: curve for arm, curve in steps.items() if curve}
    if steps:
        svg = plots.lines(steps, "attempts", percent=False, marks=True)
        section.charts.append(
            Chart("Steps of kept successes", svg, "Mean over tasks solved so far, the shortest success of each.")
        )
    for arm in points:
        last = points[arm][-1]
        section.lead.append(
            f"{arm}: {percent(last.rate)} of {last.tasks} tasks solved within {last.attempts} attempts "
            f"({between(last.interval)}), {percent(points[arm][0].rate)} at the first."
        )
    section.tables.append(_collect_table(arms, points))
    if {"reflect", "plain"} <= points.keys():
        section.lead.append(_arms_apart(arms["reflect"], arms["plain"]))
    for stage in arms.values():
        reflections = {r.trajectory_id: r for r in stage.run.read("reflection", Reflection)}
        if reflections and not section.examples:
            section.examples = retry_example(stage.path, stage.judged, reflections)
    return section


def _arm(stage: Stage, stages: Sequence[Stage]) -> str:
    arm = str(stage.manifest["config"].get("collect", {}).get("arm", stage.name))
    same = [s for s in stages if s.manifest["config"].get("collect", {}).get("arm") == arm]
    return arm if len(same) == 1 else stage.name


def _yield_points(stage: Stage) -> list[YieldPoint]:
    """From the trajectories; tasks that were never tried count when the stage's own summary says how many there are."""
    tasks = stage.summary.get("tasks")
    return metrics.yield_at(stage.results, tasks if isinstance(tasks, int) else None)


def _collect_table(arms: Mapping[str, Stage], points: Mapping[str, Sequence[YieldPoint]]) -> Table:
    rows = []
    for arm, curve in points.items():
        summary, last = arms[arm].summary, curve[-1]
        per_success = last.browser_steps / last.solved if last.solved else None
        leaks = summary.get("leak_rate")
        rows.append(
            [
                arm, str(last.tasks), percent(last.rate), between(last.interval), number(last.steps_of_kept, 2),
                str(last.browser_steps), number(per_success, 1), percent(leaks) if leaks is not None else number(None),
            ]
        )  # fmt: skip
    head = (
        "arm",
        "tasks",
        "solved",
        "95 %",
        "steps of kept",
        "browser steps",
        "steps per success",
        "thoughts that leak",
    )
    return Table(head, rows)


def _arms_apart(reflect: Stage, plain: Stage) -> str:
    """Paired difference in tasks solved at last; a task that one arm never tried is not solved by it."""
    tables: list[dict[str, list[float]]] = []
    for stage in (reflect, plain):
        solved: dict[str, list[float]] = {}
        for r in stage.results:
            solved[r.task.id] = [max(float(bool(r.success)), solved.get(r.task.id, [0.0])[0])]
        tables.append(solved)
    a, b = ({task: table.get(task, [0.0]) for task in tables[0] | tables[1]} for table in tables)
    pair = paired_bootstrap(a, b)
    said = (
        f"reflect \u2212 plain on the same tasks: {signed(pair.difference)} points {signed_interval(pair.interval)}; "
    )
    return said + ("the interval leaves zero out." if pair.resolved else "no difference resolved.")


def sft(stages: Sequence[Stage]) -> Section:
    """Loss over updates of every supervised run."""
    section = Section("sft", "Supervised fine-tuning")
    losses = {stage.name: _logged(stage, "loss") for stage in stages}
    losses = {name: curve for name, curve in losses.items() if len(curve) > 1}
    if losses:
        ends = ", ".join(f"{name} ends at {number(curve[-1][1], 3)}" for name, curve in losses.items())
        svg = plots.lines({n: _binned(c) for n, c in losses.items()}, "update", percent=False)
        section.charts.append(Chart("Training loss", svg, f"{ends}."))
    return section


def mine(stages: Sequence[Stage]) -> Section:
    """The failure modes that mining found, with what became of their states."""
    section = Section("mine", "Failure-mode mining")
    for stage in stages:
        s = stage.summary
        if not s.get("modes"):
            continue
        section.lead.append(
            f"{s['states']} states drawn from {s['rollouts']} rollouts of {s['tasks']} tasks "
            f"(policy's success {percent(s.get('success'))}); {percent(s.get('routine_share'))} of them routine."
        )
        section.tables.append(_modes_table(s["modes"]))
    return section


def _modes_table(modes: Sequence[Mapping[str, Any]]) -> Table:
    """Each mode with what became of its states. Success is left out where it is nothing but 0."""
    told = any(mode.get("success") for mode in modes)
    rows = [
        [
            f"{mode.get('group', '')}: {mode['text']}" if mode.get("text") else mode["code"], str(mode["count"]),
            percent(mode["share"]), *([percent(mode.get("success"))] if told else []), str(mode.get("verified", "")),
            str(mode.get("drawn", "")) if mode.get("trained", True) else "never trained on",
        ]
        for mode in modes
    ]  # fmt: skip
    success = ["solved all the same"] if told else []
    head = ("failure mode", "found", "share", *success, "states with a right action", "drawn")
    notes = [
        "Found counts each page of a rollout once and share is of all found. The last two columns count training "
        "states: a page that was reached by other last actions is another state, so they can be more than found. "
        "A right action (a+) is one that is known to lead to success; without one a state is not trained on.",
        "Solved all the same: of the rollouts in which the mode was found, those that ended in success."
        if told
        else "Modes were found in failed rollouts only.",
    ]
    return Table(head, rows, notes=notes)


def rl(stages: Sequence[Stage]) -> Section:
    """Gate fates, gate labels and the share of right replies over training."""
    section = Section("rl", "Reinforcement learning")
    right: dict[str, list[tuple[float, float]]] = {}
    for stage in stages:
        section.lead += _apart(stage)
        groups = stage.run.read("group", Group)
        if not groups:
            continue
        steps, fates, accuracy = _over_training(groups)
        accepted, anchored, dropped = (sum(g.fate == fate for g in groups) / len(groups) for fate in plots.FATES)
        method = stage.manifest["config"].get("rl", {}).get("method", stage.name)
        section.lead.append(
            f"{stage.name} ({method}): of {len(groups)} groups {percent(accepted)} gave a relative update, "
            f"{percent(anchored)} were anchored on a verified action, {percent(dropped)} were dropped."
        )
        if len(steps) > 1:
            section.charts.append(Chart(f"Fate of groups, {stage.name}", plots.shares(steps, fates, "update")))
            right[stage.name] = list(zip(steps, accuracy, strict=True))
        section.tables.append(_label_table(stage.name, groups))
    if right:
        caption = "Replies drawn at temperature 1 in training; a rise alone proves no better policy (see the exam)."
        section.charts.append(Chart("Right replies", plots.lines(right, "update"), caption))
    return section


def _apart(stage: Stage) -> list[str]:
    """What the policy could do on states that it was not trained on, before and after."""
    dev = stage.summary.get("dev")
    if not dev:
        return []
    before, after = dev["before"], dev["after"]
    return [
        f"{stage.name}, on {dev['states']} states set apart from training: {percent(before['reply_right'])} of replies "
        f"are right before, {percent(after['reply_right'])} after; groups without a right reply "
        f"{percent(before['all_wrong'])} and {percent(after['all_wrong'])}."
    ]


def _over_training(groups: Sequence[Group]) -> tuple[list[float], dict[str, list[float]], list[float]]:
    """Steps (bin middles), shares of each fate, and the mean share of rewarded replies, at most `BINS` points."""
    last = max(g.step for g in groups)
    width = max(1, -(-(last + 1) // BINS))
    bins: dict[int, list[Group]] = {}
    for group in groups:
        bins.setdefault(group.step // width, []).append(group)
    keys = sorted(bins)
    fates = {f: [sum(g.fate == f for g in bins[k]) / len(bins[k]) for k in keys] for f in plots.FATES}
    accuracy = []
    for k in keys:
        rewards = [c.reward for g in bins[k] for c in g.candidates if c.reward is not None]
        accuracy.append(sum(r > 0 for r in rewards) / len(rewards) if rewards else 0.0)
    return [k * width + (width - 1) / 2 for k in keys], fates, accuracy


LABELS = {
    "accepted": "contrast and competence: relative update",
    "all_fail": "no right reply",
    "low": "too few right replies",
    "all_pass": "all replies right",
    "no_contrast": "no contrast",
    "too_few": "fewer than two valid replies",
}


def _label_table(name: str, groups: Sequence[Group]) -> Table:
    """Gate labels: share in the first and in the last quarter of training."""
    ordered = sorted(groups, key=lambda g: g.step)
    quarter = max(1, len(ordered) // 4)
    rows = []
    for label, text in LABELS.items():
        parts = [sum(g.label == label for g in part) / len(part) for part in (ordered[:quarter], ordered[-quarter:])]
        if any(parts):
            rows.append([text, *map(percent, parts)])
    return Table((f"{name}: what the gate saw", "first quarter", "last quarter"), rows)


def _logged(stage: Stage, key: str) -> list[tuple[float, float]]:
    """(step, value) of every line of metrics.jsonl that has the value."""
    return [(float(m["step"]), float(m[key])) for m in stage.run.metrics() if _is_number(m.get(key)) and "step" in m]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _binned(curve: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    width = max(1, -(-len(curve) // (2 * BINS)))
    parts = [curve[i : i + width] for i in range(0, len(curve), width)]
    return [(sum(x for x, _ in p) / len(p), sum(y for _, y in p) / len(p)) for p in parts]
