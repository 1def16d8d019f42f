"""The verbs around an exam: judge stored runs again, judge the judges, task sets, import and export.

Each works on files alone, without a browser; only `judge` may ask an endpoint. See docs/exams.md.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmsweb import parts
from rmsweb.config import Config
from rmsweb.errors import ConfigError
from rmsweb.progress import Progress
from rmsweb.records import Task, Verdict
from rmsweb.stages import Inputs, open_run, with_pictures
from rmsweb.store import Run

if TYPE_CHECKING:
    pass


def judge(config: Config, out: Path, given: Inputs, show: Progress) -> dict[str, Any]:
    """Judge stored runs again (`--from RUN ...`); `--from replies=JUDGED` answers from stored replies, offline.

    What could not be judged is asked for once more by the same command.
    """
    from rmsweb.bench import rejudge as stage
    from rmsweb.bench.judges.asking import Call

    sources = {name: Run.read_only(path) for name, path in given.items() if name != "replies"}
    if not sources:
        raise ConfigError("`rmsweb judge` needs --from RUN: runs that hold trajectories (collect, mine, eval, import)")
    trajectories = stage.gathered(sources)
    with open_run(out, "judge", config, given) as run:
        with_pictures(run, [path for name, path in given.items() if name != "replies"])
        verdicts = run.read("verdict", Verdict)
        todo, again = stage.owed(trajectories, verdicts)
        if todo:
            calls = stage.answers_kept(run.read("call", Call), again)
            if "replies" in given:
                calls = [*Run.read_only(given["replies"]).read("call", Call), *calls]
            build = parts.Judges(config, run, calls, offline="replies" in given, round=stage.round_of(verdicts, again))
            work = stage.run(run, trajectories, build, todo, concurrency=config.judge.model.concurrency, show=show)
            summary = asyncio.run(work)
        else:
            summary = stage.summary(verdicts, trajectories)
        run.write_json("summary.json", summary)
        run.finish(verdicts=len(trajectories))
        return summary


def judge_eval(given: Inputs, labels: Path, labels_format: str, out: Path) -> dict[str, Any]:
    """A judge against human labels: agreement with intervals; `given` are runs with verdicts, or stored judge records."""
    from rmsweb.bench import judge_eval as stage

    if not given:
        raise ConfigError(
            "`rmsweb judge-eval` needs --from RUN: a run with verdicts, or a folder of stored judge records"
        )
    return stage.run(given, labels, labels_format=labels_format, out=out)


def tasks_of(path: Path | None, config: Config) -> Sequence[Task]:
    """The tasks of a task-set file; none without one."""
    if path is None:
        return ()
    from rmsweb import tasksets

    return tasksets.load(path, search_url=config.browser.search_url).tasks
