"""The house rules, enforced: imports go down only, light modules stay light, files and functions stay readable."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "rmsweb"
LAYERS: list[set[str]] = [
    {"errors", "actions"},
    {"records"},
    {
        "config",
        "store",
        "chat",
        "completions",
        "replies",
        "repair",
        "answers",
        "redact",
        "progress",
        "pixels",
        "statistics",
        "outage",
        "halves",
    }
    | {"manifest", "tasksets"},
    {"policy", "judge", "web", "train", "testing"},
    {"rollout", "executor"},
    {"reflect", "mine", "salvage", "bench"},
    {"view", "parts", "doctor"},
    {"stages", "pieces", "demo"},
    {"exams"},
    {"cli", "__main__"},
]
PARTS = {"reflect", "mine", "salvage"}
DATA_FOR_TRAIN = {"rmsweb.web.lexicon", "rmsweb.web.compact", "rmsweb.web.chromium"}
HEAVY = {"torch", "transformers", "trl", "datasets", "playwright", "matplotlib", "ray", "vllm", "scipy", "peft"}
FILES = sorted(SOURCE.rglob("*.py"))


def layer(module: str) -> int | None:
    """Index of the layer of `rmsweb.a.b`; None for the bare package."""
    parts = module.split(".")
    if len(parts) < 2:
        return None
    return next((i for i, names in enumerate(LAYERS) if parts[1] in names), -1)


def imports(path: Path) -> list[tuple[str, bool]]:
    """(module, at top level) of every rmsweb or heavy import of a file; TYPE_CHECKING blocks do not count."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    top = {id(node) for node in tree.body}
    found: list[tuple[str, bool]] = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "rmsweb" else [node.module]
            )
            found += [(name, id(node) in top) for name in names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, id(node) in top) for alias in node.names]
    return found


def name_of(path: Path) -> str:
    return "rmsweb." + ".".join(path.relative_to(SOURCE).with_suffix("").parts)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down_only(path: Path) -> None:
    own = layer(name_of(path))
    if path.name == "__init__.py" and path.parent == SOURCE:
        return
    assert own != -1, f"{path.name} is in no layer: name it in tests/test_architecture.py"
    own_part = name_of(path).split(".")[1]
    for module, _ in imports(path):
        if not module.startswith("rmsweb.") or module.split(".")[1] == "__version__":
            continue
        other, other_part = layer(module), module.split(".")[1]
        assert other is not None and other >= 0, f"{path}: unknown module {module}"
        assert own is not None and other <= own, f"{path}: {module} lies above"
        assert not (own_part in PARTS and other_part in PARTS and own_part != other_part), f"{path}: {module}"
        if own_part == "train" and other_part == "web":
            assert module in DATA_FOR_TRAIN, f"{path}: the learner may not know {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_heavy_packages_are_imported_where_they_are_used(path: Path) -> None:
    heavy = [m for m, at_top in imports(path) if at_top and m.split(".")[0] in HEAVY]
    if heavy:
        assert path.relative_to(SOURCE).as_posix() in {
            # Modules that are themselves only imported by the stage that needs them.
            *(p.relative_to(SOURCE).as_posix() for p in (SOURCE / "train").glob("*.py")),
            *(p.relative_to(SOURCE).as_posix() for p in (SOURCE / "web").glob("*.py")),
            "salvage/trainer.py",
            "salvage/prefix.py",
        }, f"{path} imports {heavy} at the top"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_sizes(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 400, f"{path}: {text.count(chr(10))} lines"
    tree = ast.parse(text)
    assert ast.get_docstring(tree), f"{path} says nothing of what it owns"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= 60, f"{path}:{node.lineno} {node.name}: {length} lines"


@pytest.mark.parametrize("module", ["rmsweb", "rmsweb.cli", "rmsweb.records", "rmsweb.config", "rmsweb.replies"])
def test_light_modules_load_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print([m for m in {sorted(HEAVY)!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
