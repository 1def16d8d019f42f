"""The report's tables of several judges on the same attempts: success by each, agreement, cost of judging."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rmsweb.bench import protocols
from rmsweb.bench.compare import EXAMS, IMPORT, Group, papers_of
from rmsweb.bench.judges import rubric_table
from rmsweb.bench.judges.naming import judge_parts
from rmsweb.bench.layout import Section, Stage, Table
from rmsweb.bench.protocols import JUDGE, Agreement, Bench
from rmsweb.bench.wording import between, counted, number, percent


def benches_of(group: Group, judged: Mapping[Stage, Sequence[Stage]]) -> list[Bench]:
    """Every judge of a group: the runs' own first, then each judge run; models under the names of the tables."""
    own = protocols.bench_of(group.papers[0].stage, group.rows) if group.papers[0].stage.verb in EXAMS else None
    found = [own] if own else []
    found += _stored(group)
    for stage, sources in judged.items():
        rows = []
        for paper in group.papers:
            if paper.stage not in sources:
                continue
            again = protocols.rows_by(protocols.verdicts_of(stage), paper.trajectories(), with_end=paper.stage.with_end)
            rows += paper.named(again)
        if rows and (bench := protocols.bench_of(stage, rows)):
            found.append(bench)
    return protocols.told_apart(found)


def _stored(group: Group) -> list[Bench]:
    """Judges whose verdicts lie beside imported attempts."""
    by_judge: dict[str, Bench] = {}
    for paper in group.papers:
        if paper.stage.verb == IMPORT:
            for bench in protocols.stored_benches(paper.stage, paper.trajectories()):
                kept = by_judge.setdefault(bench.name, replace(bench, rows=[]))
                kept.rows.extend(paper.named(bench.rows))
    return list(by_judge.values())


def drawn(stages: Sequence[Stage]) -> dict[str, int]:
    """Resamples and seed of the first run's config."""
    config = stages[0].manifest["config"] if stages else {}
    return {"resamples": config.get("eval", {}).get("bootstrap", 2000), "seed": config.get("seed", 0)}


def score_table(group: Group, benches: Sequence[Bench], *, resamples: int = 2000, seed: int = 0) -> Table | None:
    """Success by each judge, where there is more than the runs' own judge."""
    if len(benches) < 2 and not (benches and benches[0].stage.verb == JUDGE):
        return None
    return _scores(group, benches, short_names(benches), resamples, seed)


def add(section: Section, group: Group, benches: Sequence[Bench], *, resamples: int = 2000, seed: int = 0) -> None:
    """Put the judges' tables into the section of an exam, where there is more than the runs' own judge."""
    table = score_table(group, benches, resamples=resamples, seed=seed)
    if table is None:
        return
    short = short_names(benches)
    section.tables.append(table)
    section.tables += [table for bench in benches if (table := _process_outcome(group, bench, short[bench.name]))]
    section.notes += [said for bench in benches if (said := _unread(bench, short[bench.name]))]
    pairs = [pair for pair in protocols.agreement(benches) if pair.n]
    empty = len(benches) * (len(benches) - 1) // 2 - len(pairs)
    if pairs:
        section.tables.append(_agreement(pairs, empty, short))
        section.lead += [_said(pair, short) for pair in pairs]
    elif empty:
        section.notes.append(_without(empty))


def _unread(bench: Bench, name: str) -> str:
    """How many verdicts were given although a reply to one of the questions before could not be read."""
    verdicts = protocols.verdicts_of(bench.stage)
    given = [verdicts[r.trajectory_id] for r in bench.rows if r.trajectory_id in verdicts and r.success is not None]
    partly = sum(bool(verdict.details.get("unread")) for verdict in given)
    if not partly:
        return ""
    return (
        f"{name}: {partly} of {counted(len(given), 'verdict')} rest on questions of which some had no readable reply."
    )


def short_names(benches: Sequence[Bench]) -> dict[str, str]:
    """judge -> protocol and model, or its whole name where two would be called alike."""
    short = {b.name: " ".join(part for part in (*b.parts, f"({b.run})" if b.run else "") if part) for b in benches}
    return {name: one if list(short.values()).count(one) == 1 else name for name, one in short.items()}


def _scores(group: Group, benches: Sequence[Bench], short: Mapping[str, str], resamples: int, seed: int) -> Table:
    rows, partly = [], any(0 < len(b.rows) < max(len(o.rows) for o in benches) for b in benches)
    table = protocols.score_table(
        benches, group.tasks, runs=group.runs, found=group.found, resamples=resamples, seed=seed
    )
    for bench, model, s in table:
        given = sum(r.model == model for r in bench.rows)
        why = ", ".join(f"{reason.replace('_', ' ')} {n}" for reason, n in s.unjudged.items())
        rows.append(
            [
                short[bench.name], model, *([f"{given} of {s.n}"] if partly else []),
                f"{percent(s.success)} ({between(s.interval)})",
                f"{percent(s.success_judged)} ({between(s.interval_judged)})", str(s.judged),
                "none" if s.success_upstream is None else percent(s.success_upstream),
                f"{s.marks.get('claimed_not_done', 0)} of {s.marks.get('claimed', 0)}", why or "none",
            ]
        )  # fmt: skip
    head = (
        "judge", "model", *(["given"] if partly else []), "of all (95 %)", "of judged (95 %)", "judged",
        "as upstream stores", "claims judged not done", "could not judge",
    )  # fmt: skip
    notes = [
        "One row a judge and model; unlike judges are never added up. Of all divides by every episode asked for.",
        *(f"{short[b.name]}: {b.name}" for b in benches if short[b.name] != b.name),
    ]
    return Table(head, rows, title="Solved, by each judge", words=frozenset({1, len(head) - 1}), notes=notes)


def _process_outcome(group: Group, bench: Bench, judge: str) -> Table | None:
    """Process beside outcome, by segment, refusals apart; None for a judge that has no such numbers."""
    verdicts = protocols.verdicts_of(bench.stage)
    found = [
        rubric_table.judged(
            str(t.task.meta.get("segment") or t.task.template),
            verdicts[t.id],
            refusal=t.task.suite.endswith("refusals"),
        )
        for paper in group.papers
        for t in paper.trajectories()
        if t.id in verdicts and "process_score" in verdicts[t.id].details
    ]
    if not found:
        return None
    table = rubric_table.process_outcome_table(found)
    lines = [*table.segments, table.total, *table.refusals]
    rows = [
        [
            line.segment, str(line.n), number(line.mean_score, 2), percent(line.process_all),
            percent(line.process_rate), percent(line.outcome_all), percent(line.outcome_rate),
        ]
        for line in lines
    ]  # fmt: skip
    head = (
        "segment",
        "attempts",
        "mean share of points",
        "process, of all",
        "of judged",
        "outcome, of all",
        "of judged",
    )
    notes = ["Process: 0.8 of the points or more. Outcome: the user got it. All policies together."]
    if table.refusals:
        notes.append(f"The last {len(table.refusals)} rows are the refusal set, where declining is right.")
    return Table(head, rows, title=f"Process and outcome, {judge}", notes=notes)


def _without(empty: int) -> str:
    return f"{counted(empty, 'pair')} of judges could judge no episode in common and cannot be compared."


def _agreement(pairs: Sequence[Agreement], empty: int, short: Mapping[str, str]) -> Table:
    rows = [
        [
            short[p.a], short[p.b], str(p.n), str(p.differ), percent(p.differ / p.n if p.n else None), str(p.a_only),
            str(p.b_only), number(p.kappa, 2), str(p.left_out),
        ]
        for p in pairs
    ]  # fmt: skip
    head = (
        "judge A", "judge B", "judged by both", "differ", "share", "success by A only", "by B only", "kappa",
        "only one could judge",
    )  # fmt: skip
    notes = ["Kappa is Cohen's: 0 is chance, 1 is agreement. It says nothing of which judge is right."]
    notes += [f"Left out: {_without(empty)}"] if empty else []
    return Table(head, rows, title="Agreement of the judges", words=frozenset({1}), notes=notes)


def _said(pair: Agreement, short: Mapping[str, str]) -> str:
    return (
        f"{short[pair.a]} and {short[pair.b]} give different verdicts on {pair.differ} of {pair.n} episodes "
        f"({percent(pair.differ / pair.n)})."
    )


def judged_only(judged: Mapping[Stage, Sequence[Stage]], settings: Mapping[str, int]) -> list[Section]:
    """Sections for judged runs that are no exam (a collection, mined rollouts): the judges' tables, no exam's."""
    found = []
    for stage in dict.fromkeys(one for sources in judged.values() for one in sources):
        if stage.verb in EXAMS:
            continue
        for paper in papers_of(stage):
            group = Group(paper.exam, [paper])
            benches = benches_of(group, judged)
            own = protocols.bench_of(stage, paper.rows)
            benches = protocols.told_apart([*([own] if own else []), *benches])
            section = Section(f"judged-{stage.name}-{paper.exam}", f"Judged again: {stage.name}, {paper.exam}")
            add(section, group, benches, **settings)
            found.append(section)
    return found


def cost_table(stages: Sequence[Stage]) -> Table | None:
    """What the judges asked and used, from the runs' stored calls; None where none are stored."""
    rows = []
    for stage in stages:
        asked = stage.manifest["config"].get("eval", {})
        date = f" (prices of {asked['prices_date']})" if asked.get("prices") else ""
        for name, use in protocols.judge_use(stage.run, asked.get("prices")).items():
            protocol, model = judge_parts(name)
            money = "unknown" if use.money is None else f"{use.money:.3g}{date}"
            rows.append(
                [
                    stage.name, protocol, model, str(use.calls), str(use.pictures), str(use.prompt_tokens),
                    str(use.completion_tokens), money,
                ]
            )  # fmt: skip
    if not rows:
        return None
    head = ("run", "protocol", "judge model", "questions", "pictures sent", "tokens read", "tokens written", "money")
    notes = ["Apart from the cost of the attempts. Stored replies that answered again are not asked and not counted."]
    return Table(head, rows, title="Cost of judging", words=frozenset({1, 2, 7}), notes=notes)
