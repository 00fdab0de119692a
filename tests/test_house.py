"""The rooms of the package: which may import which, and how large their files are."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparsid
from sparsid.parallel.fingerprint import ENGINE, engine_files

ROOT = Path(sparsid.__file__).parent

# Every room with the rooms that it may import from, besides itself. The order is that
# of the listing in CONTRIBUTING.md: whoever comes later may know those before, never
# the other way round. Modules beside the rooms are rooms of one file.
BASE = {"errors", "arrays", "checks", "progress", "sparsid"}
MODELS = {*BASE, "data", "models", "kernel"}
RESULTS = {*MODELS, "bayes", "results"}
FITS = {*RESULTS, "parallel", "fitting", "simulation"}
ESTIMATORS = {*FITS, "validation", "estimators"}
ALLOWED = {
    "errors": set(),
    "arrays": set(),
    "progress": set(),
    "checks": {"errors"},
    "data": BASE,
    "kernel": BASE,
    "models": {*BASE, "kernel"},
    "bayes": MODELS,
    "results": {*MODELS, "bayes"},
    "parallel": BASE,
    "fitting": {*RESULTS, "parallel"},
    "simulation": {*RESULTS, "parallel"},
    "validation": RESULTS,
    "analysis": {*RESULTS, "validation"},
    "export": {*RESULTS, "fitting", "simulation"},
    "estimators": FITS | {"validation"},
    "results/storage": ESTIMATORS,
    "plots": {*ESTIMATORS, "analysis"},
    "report": {*ESTIMATORS, "analysis", "plots"},
    "calibration": {"validation", "estimators"},
    "diagnostics": {"validation"},
    "automatic": ESTIMATORS,
    "signals": {*BASE, "data"},
    "datasets": {*BASE, "data", "validation", "parallel"},
    "studies": {*ESTIMATORS, "datasets", "plots"},
}
# Above everything but the command.
ALLOWED["app"] = {*BASE, *ALLOWED}
# The top: what starts the package, and commands that may know everything.
TOP = {"__init__", "__main__", "cli"}
# Methods that lead on: what they need is imported when they are called. They show,
# store or analyse; no number of a fit comes from there.
LEADING_ON = {
    "analysis/comparison.py": {"estimators", "plots"},
    "data/advice/findings.py": {"report"},
    "data/record.py": {"plots"},
    "estimators/linear_tools.py": {"analysis"},
    "estimators/base.py": {"analysis", "results/storage", "report", "export"},
    "results/base.py": {"analysis", "export"},
    "results/ensemble.py": {"analysis"},
    "results/forecast.py": {"plots"},
    "results/narx.py": {"analysis"},
    "results/simulator.py": {"analysis"},
}


def sources() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room_of(parts: list[str]) -> str:
    """Return the room of a module, given its name without the package's."""
    if parts[:2] == ["results", "storage"]:
        return "results/storage"
    return parts[0] if parts else "sparsid"


def imports(tree: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """Yield the rooms that are imported, the line, and whether not at once.

    That is inside a function, or for type checkers alone.
    """
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(function, ast.If) and "TYPE_CHECKING" in ast.dump(function.test))
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "sparsid":
            names = [f"sparsid.{alias.name}" for alias in node.names]
            names = ["sparsid" if n.endswith("__version__") else n for n in names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports say where things are"
            names = [
                f"{node.module}.{alias.name}"
                if node.module == "sparsid.results"
                else str(node.module)
                for alias in node.names
            ]
        for found in sorted(set(names)):
            parts = found.split(".")
            if parts[0] == "sparsid":
                yield room_of(parts[1:]), node.lineno, id(node) in inside


def test_imports_point_one_way() -> None:
    wrong = []
    for path in sources():
        own = room_of(list(path.relative_to(ROOT).with_suffix("").parts))
        if own in TOP:
            continue
        assert own in ALLOWED, f"{own} is not in the table of rooms"
        for room, line, inside in imports(ast.parse(path.read_text())):
            leads_on = inside and room in LEADING_ON.get(name(path), set())
            if room != own and room not in ALLOWED[own] and not leads_on:
                wrong.append(f"{name(path)}:{line} ({own}) imports {room}")
    assert not wrong, "\n".join(wrong)


def test_the_directions_have_no_cycle() -> None:
    rest = {room: allowed - {room} for room, allowed in ALLOWED.items()}
    while rest:
        free = [room for room, needs in rest.items() if not needs & set(rest)]
        assert free, f"these rooms know each other: {sorted(rest)}"
        for room in free:
            del rest[room]


@pytest.mark.parametrize("room", sorted({r.split("/")[0] for r in ALLOWED}))
def test_rooms_are_listed_for_newcomers(room: str) -> None:
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    assert f"`{room}/`" in text or f"`{room}.py`" in text


def test_results_are_asked_not_told_apart() -> None:
    kinds = {"FittedModel", "Fitted", "RunFitted", "Ensemble", "FittedSimulator"}
    kinds |= {"NARX", "StateSpace", "Simulator"}
    found = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                asked = {
                    n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)
                }
                if asked & kinds:
                    found.append(f"{name(path)}:{node.lineno}")
    assert len(found) <= 3, "\n".join(found)


# -- sizes ---------------------------------------------------------------------------

MOST_LINES, MOST_IN_A_FUNCTION, MOST_ARGUMENTS = 400, 70, 12
# What users set by name: options of commands, settings of estimators. And a compiled
# loop, whose arguments are arrays.
MANY_ARGUMENTS = {
    ("cli/app.py", "identify"),
    ("cli/compare.py", "compare"),
    ("cli/inspect.py", "inspect"),
    ("estimators/narx.py", "__init__"),
    ("kernel/runs.py", "sensitivities"),
}


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_files_and_functions_are_short() -> None:
    long = {
        name(path)
        for path in sources()
        if len(path.read_text().splitlines()) > MOST_LINES
    }
    assert not long, sorted(long)
    for path in sources():
        for function in functions(path):
            where = f"{name(path)}: {function.name}"
            arguments = function.args
            count = len(arguments.posonlyargs + arguments.args + arguments.kwonlyargs)
            if (name(path), function.name) not in MANY_ARGUMENTS:
                assert count <= MOST_ARGUMENTS, where
            # The options of the largest command are half of it.
            if where != "cli/app.py: identify":
                assert function.end_lineno is not None
                lines = function.end_lineno - function.lineno + 1
                assert lines <= MOST_IN_A_FUNCTION, where


# -- the engine ----------------------------------------------------------------------

# Where work that is sent elsewhere begins.
BEGINNINGS = (
    "sparsid.automatic",
    "sparsid.studies.comparators",
    "sparsid.studies.trials",
)


def file_of(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path if path.exists() else None


def loaded_by(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports when it runs, lazily or not."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("sparsid"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                module = inner if file_of(inner) else str(node.module)
                leads_on = LEADING_ON.get(name(path), set())
                if room_of(module.split(".")[1:]) not in leads_on:
                    yield module
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "sparsid":
            yield sparsid._HOMES.get(node.attr, "sparsid")


def test_the_engine_is_what_fits_and_trials_run() -> None:
    """It listed files that had become folders, and no comparator of the studies."""
    found, ahead = set(), list(BEGINNINGS)
    while ahead:
        path = file_of(ahead.pop())
        if path is not None and path != ROOT / "__init__.py" and path not in found:
            found.add(path)
            ahead += loaded_by(path)
    files = set(engine_files())
    missing = sorted(name(path) for path in found - files)
    # Texts about results, which estimators can show, change no number.
    assert missing == ["results/summary.py"]
    for entry in ENGINE:
        assert any(path.is_relative_to(ROOT / entry) for path in found), entry


def test_pictures_pages_and_commands_are_no_part_of_the_engine() -> None:
    inside = {name(path).split("/")[0] for path in engine_files()}
    assert not inside & {"plots", "report", "cli"}
    assert not any("storage" in name(path) for path in engine_files())


# -- for newcomers -------------------------------------------------------------------

HERE = Path(__file__).parents[1]


def test_the_walk_through_identify_never_goes_back() -> None:
    text = (HERE / "CONTRIBUTING.md").read_text()
    part = text[text.index("## A newcomer's walk") : text.index("## Words")]
    files = re.findall(r"^\| \d+ \| `([\w/.]+)`", part, flags=re.MULTILINE)
    assert 10 <= len(files) <= 15
    for k, file in enumerate(files[1:], 1):
        before = set()
        for earlier in files[:k]:
            modules = set(loaded_by(ROOT / earlier))
            # A room's first file says where the others are.
            inner = {m for m in map(file_of, modules) if m and m.name == "__init__.py"}
            before |= modules.union(*(loaded_by(path) for path in inner))
        assert ROOT / file in set(map(file_of, before)), file


def test_every_benchmark_is_in_the_index() -> None:
    listed = (HERE / "benchmarks" / "README.md").read_text()
    for script in (HERE / "benchmarks").glob("*.py"):
        assert f"`{script.name}`" in listed, script.name
