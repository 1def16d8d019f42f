"""Verb -> stage: builds the parts of a recipe, opens the run directory, runs the stage.

A stage's inputs are run directories, named on the command line (`--from NAME=DIRECTORY`; without a name, by the verb
that made them). Every stage leaves summary.json and returns it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rmsweb import parts
from rmsweb.config import Config, ModelConfig
from rmsweb.errors import ConfigError
from rmsweb.manifest import read_summary
from rmsweb.outage import what_broke
from rmsweb.progress import Progress
from rmsweb.records import CriticalState, TrainSample, Trajectory, Verdict
from rmsweb.store import Images, Run

log = logging.getLogger(__name__)
Inputs = Mapping[str, Path]

WORLD = ("seed", "profile", "browser", "episode", "suite", "judge")
READS: dict[str, tuple[str, ...]] = {
    "collect": (*WORLD, "collect"),
    "samples": ("profile", "samples"),
    "sft": ("seed", "profile", "policy", "sft"),
    "mine": (*WORLD, "policy", "collect", "mine", "eval"),
    "rl": ("seed", "profile", "rl"),
    "eval": (*WORLD, "policy", "eval"),
    "pretrain": ("seed", "pretrain"),
    "judge": ("judge",),
}
"""Sections of the config that a verb reads: only these may not change when a run goes on."""

TAKES: dict[str, dict[str, str]] = {
    "collect": {},
    "pretrain": {},
    "sft": {"samples": "a run of `samples`", "start": "a run or checkpoint to go on from"},
    "mine": {
        "sft": "the run of `sft` to roll out",
        "collect": "a run of `collect` whose successes show the way",
        "rollouts": "a run of `mine` whose rollouts are taken over",
    },
    "rl": {
        "mine": "a run of `mine`",
        "sft": "the run of `sft` that RL starts from",
        "samples": "a run of `samples` to rehearse",
    },
}
"""Inputs that a verb has a use for; the others (samples, eval, judge) take any name."""
NO_FOLDERS = ("tiny", "explorer", parts.ENDPOINT)
"""What `--from NAME=` may name besides a folder."""


def inputs(sources: Sequence[str], *, runs: bool = False) -> dict[str, Path]:
    """`--from` values by name; without one, by the verb that made the run. `runs`: by the folder's name instead, which
    may also be a folder of runs.

    Raises ConfigError for a name given twice and for a path that is no folder, RunError for a folder that is no run.
    """
    found: dict[str, Path] = {}
    for source in sources:
        name, equals, where = source.partition("=")
        path = Path(where if equals else source)
        if equals and not (name and where):
            raise ConfigError(f"--from {source}: write NAME=DIRECTORY")
        if not path.is_dir() and not (equals and where in NO_FOLDERS):
            why = "is a file; give a run directory" if path.exists() else "does not exist"
            raise ConfigError(f"--from {source}: {path} {why}")
        if not equals:
            name = path.resolve().name if runs else str(Run.read_only(path).manifest["verb"])
        if name in found:
            raise ConfigError(f"--from: {name} is given twice ({found[name]} and {path}); write NAME={path}")
        found[name] = path
    return found


def _only(given: Inputs, verb: str) -> None:
    """Refuse inputs that the verb would pass over, and say which it takes."""
    takes = TAKES[verb]
    for name, path in given.items():
        if name in takes:
            continue
        made = Run.read_only(path).manifest["verb"] if (path / "run.json").exists() else ""
        what = f"--from {name}={path}" + (f", which is a run of `{made}`" if made else "")
        use = ", ".join(f"{one} ({text})" for one, text in takes.items()) or "no --from at all"
        raise ConfigError(f"`rmsweb {verb}` has no use for {what}; it takes {use}")


def _need(given: Inputs, name: str, verb: str) -> Path:
    if name not in given:
        raise ConfigError(f"`rmsweb {verb}` needs --from {name.upper()}: a run directory made by `rmsweb {name}`")
    made = Run.read_only(given[name]).manifest["verb"]
    if made != name:
        raise ConfigError(f"{given[name]} is a run of `{made}`; `rmsweb {verb}` needs one of `{name}`")
    return given[name]


def with_pictures(run: Run, sources: Sequence[Path]) -> None:
    """Let a run find the pictures of the runs it was made from."""
    run.images = Images(run.images.folder, tuple(Run.read_only(path).images for path in sources))


def open_run(out: Path, verb: str, config: Config, given: Inputs) -> Run:
    for path in given.values():
        manifest = path / "run.json"
        if manifest.exists() and not Run.read_only(path).finished:
            log.warning("%s is not finished: only what is there so far is read", path)
    files = {name: _records(path) for name, path in given.items()}
    return Run.open(out, verb, config, files, READS[verb])


def _records(path: Path) -> Path:
    """What of an input is hashed: its weights where it has some, else its record files."""
    if str(path) == "explorer":
        from rmsweb.reflect import explorer

        return Path(explorer.__file__)
    if str(path) == parts.ENDPOINT:  # which one stands in the config
        return Path(parts.__file__)
    if str(path) == "tiny" or any((folder / "config.json").exists() for folder in (path / "checkpoint", path)):
        return parts.checkpoint_of(path)
    return path


def finished_summary(run: Run) -> dict[str, Any] | None:
    """Summary of a run that owes nothing any more."""
    path = run.path / "summary.json"
    if not (run.finished_before and path.exists()):
        return None
    run.leave()
    return read_summary(path)


def collect(config: Config, out: Path, given: Inputs, show: Progress) -> dict[str, Any]:
    """Part 1: attempts of `collect.policy` on the suite's tasks."""
    from rmsweb.reflect import collect as stage

    _only(given, "collect")
    with open_run(out, "collect", config, given) as run:
        if (done := finished_summary(run)) is not None:
            return done
        suite = parts.build_suite(config.suite, config)
        work = stage.Parts(
            parts.build_policy(config.collect.policy, config, run.images),
            suite,
            parts.build_browser(config, run),
            parts.build_judge(suite, config, run),
            parts.build_reflector(config, run.images),
        )
        summary = asyncio.run(stage.run(config, run, work, show))
        return summary


def samples(config: Config, out: Path, given: Inputs, show: Progress) -> dict[str, Any]:
    """Kept trajectories of the collect runs as SFT data."""
    from rmsweb.reflect import samples as stage

    if not given:
        _need(given, "collect", "samples")  # raises and says what is missing
    for path in given.values():
        if Run.read_only(path).manifest["verb"] != "import":  # judged attempts of others are demonstrations too
            _need({"collect": path}, "collect", "samples")
    with open_run(out, "samples", config, given) as run:
        if (done := finished_summary(run)) is not None:
            return done
        sources = [Run.read_only(path) for path in given.values()]
        summary = stage.run(config, run, sources)
        show("samples", summary["samples"], summary["samples"])
        return summary


def sft(config: Config, out: Path, given: Inputs, show: Progress) -> dict[str, Any]:
    """Imitate the samples; `--from start=RUN` goes on from that checkpoint for as many updates as RL makes."""
    from rmsweb.train import sft as stage

    _only(given, "sft")
    source = _need(given, "samples", "sft")
    start = given.get("start")
    config = stage.continued(config) if start else config
    checkpoint = parts.checkpoint_of(start or parts.student(config))
    with open_run(out, "sft", config, given) as run:
        if (done := finished_summary(run)) is not None:
            return done
        data = Run.read_only(source)
        return stage.run(
            config,
            run,
            data.read("sample", TrainSample),
            data.images,
            checkpoint,
            progress=lambda step, steps, _: show("sft", step, steps),
        )


def mine(config: Config, out: Path, given: Inputs, show: Progress) -> dict[str, Any]:
    """Part 2: roll the fine-tuned policy out and find the states to train on.

    `--from rollouts=MINE` takes another run's rollouts over, to draw from the same ones in another way.
    """
    from rmsweb.bench.exam import wanted
    from rmsweb.mine import stage
    from rmsweb.mine.play import Parts, take_rollouts

    _only(given, "mine")
    source = _need(given, "sft", "mine")
    policy = parts.named_model(source, config, config.mine.temperature)
    with open_run(out, "mine", config, given) as run:
        if (done := finished_summary(run)) is not None:
            return done
        siblings: list[stage.Judged] = []
        if "rollouts" in given:
            take_rollouts(run, Run.read_only(given["rollouts"]))
        if "collect" in given:
            with_pictures(run, [given["collect"]])
            siblings = [stage.Judged(*pair) for pair in judged(Run.read_only(given["collect"]))]
        suite = parts.build_suite(config.suite, config)
        work = Parts(
            parts.build_policy(policy, config, run.images),
            parts.build_policy(config.collect.policy, config, run.images),
            suite,
            parts.build_browser(config, run),
            parts.build_judge(suite, config, run),
            chat=parts.build_model(config.mine.judge_model, run.images)
            if "chat" in (config.mine.labels, config.mine.first_error)
            else None,
            reflect=parts.build_reflector(config, run.images),
        )
        mining = config.model_copy(update={"suite": mining_suite(config)})
        tests = [task for asked in wanted(config) for task in parts.build_suite(asked, config).tasks(asked)]
        summary = asyncio.run(stage.run(mining, run, work, show, siblings=siblings, test_tasks=tests))
        run.finish(states=len(run.read("state", CriticalState)))
        return summary


def mining_suite(config: Config) -> Any:
    """Fresh training tasks: those right behind the ones that were collected on."""
    suite = config.suite
    return suite.model_copy(update={"offset": suite.offset + suite.count, "count": config.mine.tasks})


def judged(run: Run) -> list[tuple[Trajectory, Verdict]]:
    """Trajectories of a run with their latest verdicts, by id and not as they ended; those without one are left out."""
    verdicts = {verdict.trajectory_id: verdict for verdict in run.read("verdict", Verdict)}
    found = [(t, verdicts[t.id]) for t in run.read("trajectory", Trajectory) if t.id in verdicts]
    return sorted(found, key=lambda one: one[0].id)


def rl(config: Config, out: Path, given: Inputs, show: Progress) -> dict[str, Any]:
    """Part 3: offline step-level RL on the mined states."""
    _only(given, "rl")
    source, start = _need(given, "mine", "rl"), _need(given, "sft", "rl")
    checkpoint = parts.checkpoint_of(start)
    with open_run(out, "rl", config, given) as run:
        if (done := finished_summary(run)) is not None:
            return done
        from rmsweb.salvage import stage  # imports torch, which a finished run has no need of

        states, rehearsal = Run.read_only(source), given.get("samples")
        with_pictures(run, [path for name, path in given.items() if name != "sft"])
        summary = stage.run(
            config,
            run,
            states.read("state", CriticalState),
            Run.read_only(rehearsal).read("sample", TrainSample) if rehearsal else [],
            checkpoint,
            progress=lambda step, steps, _: show("rl", step, steps),
        )
        return summary


def evaluate(config: Config, out: Path, given: Inputs, show: Progress) -> dict[str, Any]:
    """The exam: every `--from NAME=MODEL` on the same held-out tasks; `control=MODEL` also without its screenshots."""
    from rmsweb.bench import exam as stage
    from rmsweb.bench.disjoint import training_tasks

    data = ("samples", "collect", "mine", "control")
    named = {name: path for name, path in given.items() if name not in data}
    if not named:
        raise ConfigError(
            "`rmsweb eval` needs models: --from NAME=RUN (a run of sft or rl, a checkpoint, `tiny`, `endpoint`)"
        )

    def model(where: Path) -> ModelConfig:
        return parts.named_model(where, config, config.policy.temperature)

    models = {name: model(path) for name, path in named.items()}
    controls = {Path(given["control"]).name: model(given["control"])} if "control" in given else {}
    with open_run(out, "eval", config, given) as run:
        suites = {str(asked.name): parts.build_suite(asked, config) for asked in stage.wanted(config)}
        stage.refuse_changed_file(config, run, suites)
        if (done := finished_summary(run)) is not None:
            return done

        def policies(of: Mapping[str, ModelConfig]) -> dict[str, Any]:
            return {name: parts.build_policy(one, config, run.images) for name, one in of.items()}

        judges = {name: parts.build_judge(suite, config, run) for name, suite in suites.items()}
        exams = stage.exams(config, suites, judges)

        trained = training_tasks(given.values(), gone_ok=config.eval.allow_overlap)

        async def play() -> dict[str, Any]:
            async with parts.build_browser(config, run) as browser:
                return await stage.run(
                    config, run, policies(models), exams, browser, controls=policies(controls),
                    training=trained.tasks, unrecorded=trained.unrecorded, show=show,
                )  # fmt: skip

        summary = asyncio.run(play())
        run.write_json("summary.json", summary)
        played = run.read("trajectory", Trajectory)
        if said := what_broke(played):
            log.warning("%s: %s", run.path, said)
        else:
            run.finish(trajectories=len(played), verdicts=len(run.read("verdict", Verdict)))
        return summary


def report(given: Inputs, out: Path, summary: Mapping[str, Any] | None = None) -> Path:
    """One HTML file from any runs."""
    from rmsweb.bench.report import write_report

    if not given:
        raise ConfigError("`rmsweb report` needs --from RUN ...")
    if out.is_dir():
        raise ConfigError(f"-o {out} is a folder; name the file to write, for instance -o {out / 'report.html'}")
    return write_report(given, out, summary)


def pretrain(config: Config, out: Path, given: Inputs, show: Progress) -> dict[str, Any]:
    """Make the tiny base again."""
    from rmsweb.train import pretrain as stage

    _only(given, "pretrain")
    with open_run(out, "pretrain", config, given) as run:
        if (done := finished_summary(run)) is not None:
            return done
        return stage.run(config, run, progress=show)


def doctor(config: Config, probe: bool) -> int:
    """Check this machine; 0 when all is well, 1 when something is missing."""
    from rmsweb import doctor as stage

    return stage.show(config, probe)


STAGES: dict[str, Callable[[Config, Path, Inputs, Progress], dict[str, Any]]] = {
    "collect": collect,
    "samples": samples,
    "sft": sft,
    "mine": mine,
    "rl": rl,
    "eval": evaluate,
    "pretrain": pretrain,
}
