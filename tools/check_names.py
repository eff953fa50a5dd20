"""Check names, docstrings and classes: each check has a limit, and stops `make check` above it.

`CONTRIBUTING.md`, "Names and docstrings", has the rules. A limit is a share
of all bindings, functions or docstrings of `src`, of the public helpers of `tests`, or a number; it
may only be lowered. `--list` prints each violation instead of the table, `--list CHECK` those of
one check.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "harken"
TESTS = ROOT / "tests"

_PARTICIPLES_WORDS = """
found said told given asked heard kept held made taken named called shown known read written
opened closed cut joined listed placed looked meant begun ended gone left lost seen born woken
sent brought chosen spoken thrown used wanted noted counted marked fitted settled done reached
replaced derived labelled shortened folded changed rewritten checked packed unpacked missed
parted answered spent
"""
PARTICIPLES = frozenset(_PARTICIPLES_WORDS.split())
_VAGUE_WORDS = """
one other more there what who whom here at least most such ours theirs whole rest all some own
again wrong odd beside thing things
"""
VAGUE = PARTICIPLES | frozenset(_VAGUE_WORDS.split())
_VAGUE_MODULES_WORDS = """
opinions unjudged wish looking sieve patience whereabouts crew happening self_made spell saying
listening passing noted face ears hands ink pace lasting placing bringing mending failing naming
surroundings sight trail voice story tape lanes shelf parting
"""
VAGUE_MODULES = VAGUE | frozenset(_VAGUE_MODULES_WORDS.split())
_PARTICIPLE_FUNCTION = re.compile(rf"(?:{'|'.join(PARTICIPLES)})_(?:in|of|at|for|by|from|with|to)")
_WHO = re.compile(r"\b(?:what|who|whom|whoever|whatever|whose|wherever)\b", re.IGNORECASE)
_QUESTION_WORD = re.compile(r"^(?:`[^`]*`: )?(?:What|Who|How|Where|Which|When)\b")
_SOMEBODY = re.compile(r"\b(?:somebody|nobody|anybody|someone|anyone)\b", re.IGNORECASE)
_NONE = re.compile(r"(?:;|\.) ?None\b|\bNone: ")
_OLD_CONSTANT = re.compile(r"_?(?:MOST|LEAST|LONGEST|LARGEST|DEEPEST|PATIENCE)(?:_|$)")
MAX_FILES_PER_FOLDER = 15
LARGE_FOLDERS = {
    "harken/agents": "one class of agents a module, beside five folders",
    "harken/store/sqlite": "one module for each table or step: the listing is that of the format",
    "harken/store": "one module for each concept that all kinds of stores share",
    "harken/cli/commands": "one module for each command: the listing is the list of commands",
}
"""Folders with more files than others, each with its reason."""
LIGHT_MODULES = {
    "harken/cli/command_tree.py": "imported by `harken --help` and `harken --version`",
    "harken/cli/commands/completion.py": "imported by the completion of a shell",
    "harken/cli/suggestions.py": "imported by a misspelled command",
    "harken/core/arguments.py": "imported by a misspelled command",
    "harken/session/log/compressed.py": "imported by `harken --help` and the completion of a shell",
    "harken/world/search/gitignore.py": "imported by the search engine, an interpreter of its own",
    "harken/world/search/glob.py": "imported by the search engine, an interpreter of its own",
}
"""Modules that must not import msgspec, each with its reason."""
_FIELD_OPTIONS = {"init", "repr", "compare", "hash", "kw_only", "metadata"}
"""Options of a dataclass field that a struct does not have."""


@dataclass(slots=True)
class Check:
    """A check, its limit, and what was found."""

    name: str
    limit: float
    """A percentage of `total`, or a number of violations where `is_share` is False."""
    is_share: bool = False
    total: int = 0
    violations: list[str] = field(default_factory=list)

    @property
    def value(self) -> float:
        """The share in percent, or the number of violations."""
        if not self.is_share:
            return len(self.violations)
        return 100 * len(self.violations) / max(self.total, 1)

    @property
    def text(self) -> str:
        """The value with its unit."""
        return f"{self.value:.2f} %" if self.is_share else f"{self.value:.0f}"


Nodes: TypeAlias = Sequence[ast.AST]
"""All nodes of a module. To walk a tree takes most of the time, so that it is done once."""


def _bindings(nodes: Nodes) -> Iterator[tuple[int, str]]:
    """Yield the names that assignments and parameters bind."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def _docstrings(nodes: Nodes) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of the module, its classes and its functions."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield getattr(node, "lineno", 1), docstring


def _check_bindings(place: str, nodes: Nodes, check: Check) -> None:
    for line, name in _bindings(nodes):
        if name not in ("self", "cls", "_"):
            check.total += 1
            if name in VAGUE:
                check.violations.append(f"{place}:{line} {name}")


def _check_functions(place: str, nodes: Nodes, check: Check) -> None:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            check.total += 1
            name = node.name.strip("_")
            if name in PARTICIPLES or _PARTICIPLE_FUNCTION.fullmatch(name):
                check.violations.append(f"{place}:{node.lineno} {node.name}")


def _first_line_check(
    is_wrong: Callable[[str], object],
) -> Callable[[str, Nodes, Check], None]:
    def check_docstrings(place: str, nodes: Nodes, check: Check) -> None:
        for line, docstring in _docstrings(nodes):
            check.total += 1
            first = docstring.split("\n")[0]
            if is_wrong(first):
                check.violations.append(f"{place}:{line} {first}")

    return check_docstrings


def _check_labels(place: str, nodes: Nodes, check: Check) -> None:
    for line, docstring in _docstrings(nodes):
        if "One idea:" in docstring:
            check.violations.append(f"{place}:{line}")


def _check_constants(place: str, nodes: Nodes, check: Check) -> None:
    for line, name in _bindings(nodes):
        if _OLD_CONSTANT.match(name):
            check.violations.append(f"{place}:{line} {name}")


def _check_module_name(place: str, _: Nodes, check: Check) -> None:
    stem = Path(place).stem
    if stem in VAGUE_MODULES - {"read"}:  # the `read` tool
        check.violations.append(place)


def _check_dataclasses(place: str, nodes: Nodes, check: Check) -> None:
    """Find the dataclasses that could be structs: a struct is made at import 20 times faster."""
    for node in nodes:
        if isinstance(node, ast.ClassDef) and "dataclass" in _called_names(node.decorator_list):
            check.total += 1
            if place not in LIGHT_MODULES and not _needs_dataclass(node):
                check.violations.append(f"{place}:{node.lineno} {node.name}")


def _needs_dataclass(node: ast.ClassDef) -> bool:
    """Whether a struct cannot replace a dataclass.

    A struct has a metaclass of its own, no constructor that `check_arguments` can wrap, and no
    fields that are hidden or computed.
    """
    has_other_base = any(not ast.unparse(base).startswith("Generic[") for base in node.bases)
    has_field_options = any(
        isinstance(member, ast.AnnAssign)
        and isinstance(member.value, ast.Call)
        and any(option.arg in _FIELD_OPTIONS for option in member.value.keywords)
        for member in node.body
    )
    return len(node.decorator_list) > 1 or has_other_base or has_field_options


def _called_names(decorators: Sequence[ast.expr]) -> set[str]:
    """Return the last names of decorators, without their arguments."""
    names = (ast.unparse(decorator).partition("(")[0] for decorator in decorators)
    return {name.rpartition(".")[2] for name in names}


def _helpers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the public functions and classes of a test module that are no tests."""
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not node.name.startswith(("_", "test_", "Test")):
            yield node.lineno, node.name


def _check_helpers(place: str, tree: ast.Module, check: Check) -> None:
    for line, name in _helpers(tree):
        check.total += 1
        if name.lower() in VAGUE or _PARTICIPLE_FUNCTION.fullmatch(name):
            check.violations.append(f"{place}:{line} {name}")


def _check_test_module(place: str, check: Check) -> None:
    stem = Path(place).stem.removeprefix("test_").removesuffix("_kit")
    if stem in VAGUE_MODULES - {"read"}:  # the `read` tool
        check.violations.append(place)


def measure_tests(tests: Path = TESTS) -> list[Check]:
    """Return the checks of a folder of tests with what they found."""
    helpers = Check("test helpers with vague names", 4.5, is_share=True)
    modules = Check("test module names", 0)
    for path in sorted(tests.rglob("*.py")):
        place = str(path.relative_to(tests.parent))
        tree = ast.parse(path.read_text("utf-8"), place)
        _check_helpers(place, tree, helpers)
        _check_test_module(place, modules)
    return [helpers, modules]


def measure(source: Path = SOURCE) -> list[Check]:
    """Return all checks with what they found in a package."""
    per_file: list[tuple[Check, Callable[[str, Nodes, Check], None]]] = [
        (Check("vague bindings", 1, is_share=True), _check_bindings),
        (Check("functions named by a participle", 1, is_share=True), _check_functions),
        (Check("docstrings with what or who", 1.2, is_share=True), _first_line_check(_WHO.search)),
        (
            Check("docstrings that begin with a question word", 0.1, is_share=True),
            _first_line_check(_QUESTION_WORD.search),
        ),
        (
            Check("docstrings with somebody or nobody", 0, is_share=True),
            _first_line_check(_SOMEBODY.search),
        ),
        (Check("docstrings with `; None`", 0, is_share=True), _first_line_check(_NONE.search)),
        (Check("labels such as 'One idea:'", 0), _check_labels),
        (Check("constants such as MOST_", 0), _check_constants),
        (Check("module names", 0), _check_module_name),
        (Check("dataclasses that could be structs", 0), _check_dataclasses),
    ]
    classes: dict[str, list[str]] = defaultdict(list)
    folders: Counter[str] = Counter()
    for path in sorted(source.rglob("*.py")):
        place = str(path.relative_to(source.parent))
        tree = ast.parse(path.read_text("utf-8"), place)
        nodes = [*ast.walk(tree)]
        for check, run in per_file:
            run(place, nodes, check)
        if path.name != "__init__.py":
            folders[str(path.parent.relative_to(source.parent))] += 1
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(place)
    doubles = [f"{name}: {', '.join(places)}" for name, places in classes.items() if places[1:]]
    large = [
        f"{folder}: {count} files"
        for folder, count in folders.items()
        if count > MAX_FILES_PER_FOLDER and folder not in LARGE_FOLDERS
    ]
    return [
        *(check for check, _ in per_file),
        Check("public class names used twice", 0, violations=doubles),
        Check(f"folders of more than {MAX_FILES_PER_FOLDER} files", 0, violations=large),
    ]


def main(arguments: Sequence[str] | None = None, source: Path = SOURCE, tests: Path = TESTS) -> int:
    """Print the table or the violations. Return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--list", nargs="?", const="", metavar="CHECK", help="print violations")
    options = parser.parse_args(arguments)
    checks = measure(source) + measure_tests(tests)
    for check in checks:
        if options.list is None:
            print(f"{check.name:48} {check.text:>9}  limit {check.limit:g}")
        elif options.list in check.name:
            print(f"{check.name}:", *check.violations, sep="\n  ")
    exceeded = [check for check in checks if check.value > check.limit]
    for check in exceeded:
        print(
            f"names: {check.name}: {check.text}, limit {check.limit:g}; see --list", file=sys.stderr
        )
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
