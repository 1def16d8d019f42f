"""The verbs around an exam: judge stored runs again, judge the judges, task sets, import and export.

Each works on files alone, without a browser; only `judge` may ask an endpoint. See docs/exams.md.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from rmsweb import parts
from rmsweb.config import Config
from rmsweb.errors import ConfigError
from rmsweb.progress import Progress
from rmsweb.records import Verdict
from rmsweb.stages import Inputs, finished_summary, open_run, with_pictures
from rmsweb.store import Run

if TYPE_CHECKING:
    from rmsweb.tasksets import TaskSet


def judge(config: Config, out: Path, given: Inputs, show: Progress) -> dict[str, Any]:
    """Judge stored runs again (`--from RUN ...`); `--from replies=JUDGED` answers from stored replies, offline.

    What could not be judged is asked for once more by the same command.
    """
    from rmsweb.bench import rejudge as stage
    from rmsweb.bench.judges.asking import Call
    from rmsweb.bench.judges.known import self_test

    sources = {name: Run.read_only(path) for name, path in given.items() if name != "replies"}
    if not sources:
        raise ConfigError("`rmsweb judge` needs --from RUN: runs that hold trajectories (collect, mine, eval, import)")
    trajectories = stage.gathered(sources)
    origin = stage.origins(sources, trajectories)
    with open_run(out, "judge", config, given) as run:
        with_pictures(run, [path for name, path in given.items() if name != "replies"])
        verdicts = run.read("verdict", Verdict)
        todo, again = stage.owed(trajectories, verdicts)
        if not todo and (done := finished_summary(run)) is not None:
            return done
        if todo:
            rounds = stage.rounds_of(verdicts, again)
            asked = run.read("call", Call)
            calls = stage.answers_kept(asked, rounds, verdicts)
            vain = stage.asked_in_vain(asked, calls, rounds)
            if "replies" in given:
                calls = [*Run.read_only(given["replies"]).read("call", Call), *calls]
            build = parts.Judges(config, run, calls, offline="replies" in given, rounds=vain)
            judges = [build(trajectory) for trajectory in trajectories.values()]
            stage.refuse_unlike(run, verdicts, judges)
            if "replies" in given:
                stage.refuse_others_replies(calls, judges)

            async def work() -> dict[str, Any]:
                if config.judge.protocol != "rules" and "replies" not in given:
                    await self_test(config.judge)
                try:
                    slots = config.judge.model.concurrency
                    return await stage.run(run, trajectories, build, todo, concurrency=slots, show=show, origin=origin)
                finally:
                    await build.close()

            summary = asyncio.run(work())
        else:
            summary = stage.summary(verdicts, trajectories, origin)
        run.write_json("summary.json", summary)
        run.finish(verdicts=len(trajectories))
        return summary


def labelled_inputs(sources: Sequence[str]) -> dict[str, Path]:
    """`--from` of `judge-eval`: run directories, folders or files of stored judge records. Raises ConfigError."""
    found: dict[str, Path] = {}
    for source in sources:
        name, equals, where = source.partition("=")
        path = Path(where if equals else source)
        if not path.is_dir():
            raise ConfigError(
                f"--from {source}: {path} is no folder; give a run directory or a folder of judge records"
            )
        if not equals:
            name = path.resolve().name
        if name in found:
            raise ConfigError(f"--from: {name} is given twice ({found[name]} and {path}); write NAME={path}")
        found[name] = path
    return found


def judge_eval(
    given: Inputs, labels: Path, labels_format: str, rule: str, out: Path, quiet: bool = False
) -> dict[str, Any]:
    """Judges against human labels, with intervals; `given`: runs with verdicts, or stored judge records of others.

    Without any, the labels file itself has to hold verdicts (CUAVerifierBench does). `rule`: which of several
    annotators counts.
    """
    from rmsweb.bench import judge_eval as stage
    from rmsweb.bench.agreement import Rule

    if rule not in get_args(Rule):
        raise ConfigError(f"--rule {rule!r}: choose {', '.join(get_args(Rule))}")
    found = stage.run(given, labels, labels_format=labels_format, rule=cast(Rule, rule), out=out)
    if not quiet:
        stage.table(found)
    return found


def import_runs(
    folder: Path,
    format: str,
    out: Path,
    tasks: Path | None,
    model: str,
    verdicts: str,
    config: Config,
    *,
    part: bool = False,
) -> dict[str, Any]:
    """Trajectories in another format -> a run directory. `verdicts`: which of several stored score files counts.
    `part`: the attempts are a part of the task set, of which no more was asked for."""
    from rmsweb.bench import formats

    file = task_file(tasks, config)
    given = file.tasks if file else ()
    return formats.import_runs(format, folder, out, tasks=given, model=model, verdicts=verdicts, part=part, file=file)


def export_runs(given: Inputs, format: str, out: Path, policy: str = "", style: str = "openai") -> dict[str, Any]:
    """Trajectories or samples of one run in another format. Raises ConfigError unless one run is given."""
    from rmsweb.bench import formats

    if len(given) != 1:
        raise ConfigError(f"`rmsweb export` takes one --from RUN, it was given {len(given)}")
    return formats.export_runs(format, next(iter(given.values())), out, policy=policy, style=style)


def task_file(path: Path | None, config: Config) -> "TaskSet | None":
    """The task set of a file; None without one."""
    if path is None:
        return None
    from rmsweb import tasksets

    return tasksets.load(path, search_url=config.browser.search_url)
