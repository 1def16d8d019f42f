"""The command line: one verb, one stage. Few flags, frozen; a new knob is a config field.

Errors that a user can act on are printed in one message and end with exit code 2. Stages are imported when their verb
is used, so that `rmsweb --help` stays quick.
"""

import io
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

import rmsweb
from rmsweb.errors import ConfigError, RmswebError

app = typer.Typer(
    name="rmsweb",
    help="Train compact web agents that see screenshots and act in a real browser (RMSWeb, arXiv 2608.00335).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

tasks_app = typer.Typer(
    help="Task sets of the exams: list, get, check, make.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(tasks_app, name="tasks")

Recipe = Annotated[Path | None, typer.Option("-c", "--config", help="Recipe (TOML); see recipes/.")]
Out = Annotated[Path, typer.Option("-o", "--out", help="Run directory to make or to go on with.")]
From = Annotated[list[str] | None, typer.Option("--from", help="Input: a run directory, or NAME=DIRECTORY.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Override a setting: a.b=value.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, no summary.")]


def _version(asked: bool) -> None:
    if asked:
        print(f"rmsweb {rmsweb.__version__}")
        raise typer.Exit


INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells give it."""


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """One thread for every numeric library: two make the tiny model nine times slower on a busy machine."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if parent := os.environ.get("RMSWEB_PARENT"):
        threading.Thread(target=_end_with, args=(int(parent),), daemon=True).start()


def _end_with(parent: int) -> None:
    """A stage that a demo started ends when the demo is killed: it would hold the run directory otherwise."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _stage(
    verb: str, out: Path, recipe: Path | None, sources: list[str] | None, sets: list[str] | None, quiet: bool
) -> None:
    from rmsweb import exams, stages
    from rmsweb.config import load
    from rmsweb.progress import progress

    config = load(recipe, sets)
    with progress(quiet) as show:
        summary = {**stages.STAGES, "judge": exams.judge}[verb](config, out, stages.inputs(sources or []), show)
    if not quiet:
        print(json.dumps(summary, indent=2, default=str))


def _add(verb: str, help: str) -> None:
    def command(out: Out, config: Recipe = None, source: From = None, set: Set = None, quiet: Quiet = False) -> None:
        _stage(verb, out, config, source, set, quiet)

    app.command(verb, help=help)(command)


_add("collect", "Part 1: attempt, judge, reflect, retry. Writes trajectories.")
_add("samples", "Turn kept trajectories (--from COLLECT) into SFT data; guidance stripped, leaks scanned.")
_add("sft", "Fine-tune the policy on samples (--from SAMPLES).")
_add("mine", "Part 2: roll the policy out (--from SFT), find, label and fix critical states.")
_add("rl", "Part 3: Salvage-DS on mined states (--from MINE --from SFT [--from SAMPLES]).")
_add("eval", "Exam of any number of models on the same tasks (--from NAME=RUN ...).")
_add("judge", "Judge stored runs again by any protocol (--from RUN ...; --from replies=JUDGED answers offline).")
_add("pretrain", "Make the tiny base model again from synthetic pages.")


@app.command("judge-eval")
def judge_eval(
    out: Out,
    labels: Annotated[Path, typer.Option("--labels", help="Human labels: a file, or a folder of them.")],
    source: From = None,
    labels_format: Annotated[
        str, typer.Option("--labels-format", help="Found out by the header unless given.")
    ] = "auto",
    rule: Annotated[str, typer.Option("--rule", help="Of several annotators: first, majority or all.")] = "first",
    quiet: Quiet = False,
) -> None:
    """How well judges agree with human labels (--from JUDGED ..., or a folder of stored judge records)."""
    from rmsweb import exams

    exams.judge_eval(exams.labelled_inputs(source or []), labels, labels_format, rule, out, quiet)


@app.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(help="Folder of trajectories in another format.")],
    out: Out,
    format: Annotated[str, typer.Option("--format", help="om2w, webvoyager, fara, molmoweb ...")] = "auto",
    tasks: Annotated[Path | None, typer.Option("--tasks", help="Task set they belong to: what was asked for.")] = None,
    model: Annotated[str, typer.Option("--model", help="Name of the policy in tables.")] = "",
    verdicts: Annotated[str, typer.Option("--verdicts", help="Which of several stored score files counts.")] = "",
    part: Annotated[bool, typer.Option("--part", help="Of --tasks no more was asked for than was attempted.")] = False,
) -> None:
    """Trajectories of other tools -> a run directory that can be judged, reported, viewed and trained on."""
    from rmsweb import exams
    from rmsweb.config import load

    found = exams.import_runs(folder, format, out, tasks, model, verdicts, load(None), part=part)
    print(json.dumps(found, indent=2))


@app.command("export")
def export(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to write.")],
    format: Annotated[str, typer.Option("--format", help="om2w, om2w_v2, webvoyager, fara; chat (of a samples run).")],
    source: From = None,
    policy: Annotated[str, typer.Option("--policy", help="Only this policy's trajectories.")] = "",
    style: Annotated[str, typer.Option("--style", help="Of chat rows: openai or sharegpt.")] = "openai",
) -> None:
    """A run's trajectories, or SFT samples, in other tools' formats (--from RUN)."""
    from rmsweb import exams, stages

    print(json.dumps(exams.export_runs(stages.inputs(source or []), format, out, policy, style), indent=2))


@app.command()
def validate(
    path: Annotated[Path, typer.Argument(help="A file of chat rows, as `export --format chat` writes.")],
) -> None:
    """Read every chat row again: pictures, placeholders, roles. Exit status 1 when something is wrong."""
    from rmsweb.bench.formats import chat

    found = chat.validate(path)
    for row, field, message in found["problems"]:
        print(f"row {row}: {field}: {message}")
    print(f"{found['rows']} rows, {found['pictures']} pictures, {len(found['problems'])} problems")
    if not found["whole"]:
        print("stopped there: the rows behind were not read")
    raise typer.Exit(1 if found["problems"] else 0)


@tasks_app.command("list")
def tasks_list() -> None:
    """The task sets that are known, with what names a version."""
    from rmsweb.tasksets import command

    print(command.command_list())


@tasks_app.command("get")
def tasks_get(
    name: Annotated[str, typer.Argument(help="A name that `rmsweb tasks list` shows.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to write into.")] = Path("data"),
) -> None:
    """Download a task set from its public source, where the net and its licence allow it."""
    from rmsweb.tasksets import command

    print(command.command_get(name, out))


@tasks_app.command("check")
def tasks_check(
    paths: Annotated[list[Path], typer.Argument(help="A task-set file, or several that are to make one set.")],
    config: Recipe = None,
    references: Annotated[
        Path | None, typer.Option("--references", help="WebVoyager's reference_answer.json: which answers are stale.")
    ] = None,
) -> None:
    """Which version a file is, how many tasks, which dates have passed, what is wrong with it. Several files: whether
    they are parts of one version; a mixture is refused."""
    from rmsweb.config import load
    from rmsweb.tasksets import command

    print(command.command_check(paths, search_url=load(config).browser.search_url, references=references))


@tasks_app.command("make")
def tasks_make(
    path: Annotated[Path, typer.Argument(help="A task-set file.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="JSON lines to write, for suite.path.")],
    patches: Annotated[Path | None, typer.Option("--patches", help="Patch file that moves dates; see docs.")] = None,
    ids: Annotated[str, typer.Option("--ids", help="A list of ids that `tasks list` shows: only these.")] = "",
) -> None:
    """A task set with moved dates, or a part of it, under a name that says so."""
    from rmsweb.config import load
    from rmsweb.tasksets import command

    search_url = load(None).browser.search_url
    print(command.command_make(path, out, patches=patches, ids=ids, search_url=search_url))


@app.command()
def report(
    source: From = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="HTML file to write.")] = Path("report.html"),
    leaderboard: Annotated[bool, typer.Option("--leaderboard", help="Print published figures with protocols.")] = False,
) -> None:
    """One HTML file with plots and example trajectories from any runs (--from RUN ..., or a folder of runs)."""
    from rmsweb import stages
    from rmsweb.bench.leaderboard import table

    if leaderboard:
        table()
    if source or not leaderboard:
        print(stages.report(stages.inputs(source or [], runs=True), out))


@app.command()
def view(
    run: Annotated[Path, typer.Argument(help="Run directory.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write a folder to open offline; no server.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on loopback; 0 picks a free one.")] = 0,
) -> None:
    """Look at a run's trajectories step by step, in the browser."""
    from rmsweb import view as viewer

    viewer.show(run, out, port)


@app.command()
def demo(out: Out = Path("runs/demo"), config: Recipe = None, set: Set = None, quiet: Quiet = False) -> None:
    """The whole recipe on the embedded default, about ten minutes on two cores."""
    from rmsweb import demo as recipe

    recipe.main(out, config, set or [], quiet)


@app.command()
def parse(
    profile: Annotated[str, typer.Option(help="Coordinate profile: qwen3vl, compact, absolute, percent.")] = "qwen3vl",
    viewport: Annotated[str, typer.Option(help="CSS pixels of the screenshot, WIDTHxHEIGHT.")] = "1280x800",
) -> None:
    """One model reply on standard input -> one JSON object: how rmsweb reads it."""
    from rmsweb.replies import parse_command

    if sys.stdin is None:
        raise ConfigError("`rmsweb parse` reads one reply from standard input, which is closed")
    text = sys.stdin.buffer.read().decode("utf-8-sig", errors="replace")
    value, code = parse_command(text, profile, viewport)
    print(json.dumps(value, ensure_ascii=False))
    raise typer.Exit(code)


@app.command()
def doctor(
    config: Recipe = None,
    set: Set = None,
    probe: Annotated[bool, typer.Option("--probe", help="Only the tiny model's reading probe.")] = False,
) -> None:
    """Check this machine and endpoint: browser, fonts, model replies, picture limits."""
    from rmsweb import stages
    from rmsweb.config import load

    raise typer.Exit(stages.doctor(load(config, set), probe))


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def main() -> None:
    """Entry point of the `rmsweb` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    if odd := [argument for argument in sys.argv if not _is_text(argument)]:
        sys.stderr.write(f"rmsweb: {odd[0]!a} holds bytes that are no UTF-8, and no record can name it; rename it\n")
        sys.exit(2)
    try:
        code: Any = app(standalone_mode=False)
    except RmswebError as error:
        sys.stderr.write(f"rmsweb: {error}\n")
        sys.exit(2)
    except typer.Exit as leave:
        code = leave.exit_code
    except (KeyboardInterrupt, typer.Abort) as stop:
        if isinstance(stop.__cause__, EOFError):  # the parser takes a file that ends too early for a wish to stop
            raise stop.__cause__ from None
        code = INTERRUPTED
    except BrokenPipeError:
        # Who read us has enough; what is left in the buffer must not raise at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
    except OSError as error:
        said = f"rmsweb: {error.strerror or error}: {error.filename or 'no file named'}"
        if isinstance(error, FileNotFoundError | FileExistsError | NotADirectoryError | IsADirectoryError):
            sys.stderr.write(f"{said}; is this the path that you meant?\n")
        else:
            sys.stderr.write(f"{said}; nothing is lost, the same command goes on once this is cured\n")
        sys.exit(2)
    except Exception as error:
        show = getattr(error, "show", None)  # a usage error of the parser's own (typer brings its own copy of click)
        if show is None:
            raise
        show()
        sys.exit(2)
    if code == INTERRUPTED:  # typer hands Ctrl-C on as this value
        sys.stderr.write("rmsweb: interrupted; the same command goes on from here\n")
    sys.exit(code if isinstance(code, int) else 0)
