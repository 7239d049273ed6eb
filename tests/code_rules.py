"""The rules of the house about imports and sizes, as tables, and a checker that reads the sources.

Nothing is imported to be checked: the abstract syntax tree is enough, so imports inside functions
and under ``TYPE_CHECKING`` count too. Complaints are sentences that name file and fault.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
MAX_PARAMETERS = 6

STAGES: tuple[frozenset[str], ...] = (
    frozenset({"errors", "values", "version", "paths", "noise"}),
    frozenset({"config", "devices", "library", "kv"}),
    frozenset({"metrics"}),
    frozenset({"events"}),
    frozenset({"tokens", "sampling", "grammar", "prompts"}),
    frozenset({"verify"}),
    frozenset({"rejection"}),
    frozenset({"backends", "drafters", "budget", "graph", "plan"}),
    frozenset({"draft_mode", "draft_models"}),
    frozenset({"scheduler", "sequence", "drafting", "slices", "admission", "probe"}),
    frozenset({"interface"}),
    frozenset({"loop"}),
    frozenset({"load", "reference"}),
    frozenset({"server", "cli", "bench"}),
)
"""Modules and packages of ``engine``, earliest first. None imports from a later set."""

QT = ("PySide6", "PyQt5", "PyQt6", "shiboken6", "pyqtgraph", "qasync")
RUNTIME = ("openvino", "openvino_genai", "openvino_tokenizers")


@dataclass(frozen=True, slots=True)
class Ban:
    """Modules at or below ``inside`` do not import modules at or below ``banned``."""

    inside: str
    banned: tuple[str, ...]
    apart_from: tuple[str, ...] = ()
    """What may be imported all the same."""


BANS = (
    Ban("engine", ("app", "tests", *QT)),
    Ban("app", ("engine", "tests", "transformers", *RUNTIME)),
    Ban("resources", ("engine", "app", "tests")),
    Ban("engine.drafters", ("engine.backends",), apart_from=("engine.backends.base",)),
)

DRAFTERS = "engine.drafters"
SHARED_BY_DRAFTERS = frozenset({"base", "block"})
MAY_IMPORT_DRAFTERS = frozenset({"combine"})

STANDARD_LIBRARY_ALONE = frozenset({"dev", "dev_system"})


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed source file. ``imports`` are dotted names, ``from a import b`` giving ``a.b``."""

    name: str
    path: Path
    num_lines: int
    tree: ast.Module
    imports: frozenset[str]
    runtime_imports: frozenset[str]
    """Without those under ``if TYPE_CHECKING``, which no interpreter follows."""


def read_modules(root: Path, folders: Iterable[str]) -> dict[str, Module]:
    """Every module below ``folders`` of ``root`` and the scripts in ``root``, by dotted name."""
    paths = [*root.glob("*.py")]
    for name in folders:
        paths += (root / name).rglob("*.py")
    modules = (read_module(root, path) for path in sorted(paths))
    return {module.name: module for module in modules}


def read_module(root: Path, path: Path) -> Module:
    """Parse one file."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source, str(path))
    parts = path.relative_to(root).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    parts = parts[:-1] if is_package else parts
    package = parts if is_package else parts[:-1]
    return Module(
        name=".".join(parts),
        path=path.relative_to(root),
        num_lines=len(source.splitlines()),
        tree=tree,
        imports=frozenset(_imports(ast.walk(tree), package)),
        runtime_imports=frozenset(_imports(_walk_runtime(tree), package)),
    )


def _imports(nodes: Iterable[ast.AST], package: tuple[str, ...]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def _walk_runtime(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    is_guard = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    children = node.orelse if is_guard else ast.iter_child_nodes(node)
    for child in children:
        yield from _walk_runtime(child)


def is_below(name: str, prefix: str) -> bool:
    """Whether ``name`` is ``prefix`` or lies in it: ``a.b`` is below ``a``, ``ab`` is not."""
    return name == prefix or name.startswith(f"{prefix}.")


def banned_imports(modules: Mapping[str, Module], bans: Iterable[Ban] = BANS) -> list[str]:
    """Imports across a border that has to stay closed."""
    return [
        f"{module.path} imports {imported}, which {ban.inside} never does"
        for ban in bans
        for module in modules.values()
        if is_below(module.name, ban.inside)
        for imported in sorted(module.imports)
        if any(is_below(imported, banned) for banned in ban.banned)
        and not any(is_below(imported, allowed) for allowed in ban.apart_from)
    ]


def drafters_that_import_each_other(modules: Mapping[str, Module]) -> list[str]:
    """Each strategy stands alone on `base`; only the combining one knows the others."""
    complaints: list[str] = []
    for module in modules.values():
        own = _part_below(module.name, DRAFTERS)
        if own is None or own in MAY_IMPORT_DRAFTERS:
            continue
        for imported in sorted(module.imports):
            other = _part_below(imported, DRAFTERS)
            is_module = f"{DRAFTERS}.{other}" in modules
            if is_module and other != own and other not in SHARED_BY_DRAFTERS:
                complaints.append(f"{module.path} imports the drafter {other}")
    return complaints


def stages_out_of_order(modules: Mapping[str, Module]) -> list[str]:
    """Imports of a later stage, and modules of the engine that no stage names."""
    rank = {name: number for number, stage in enumerate(STAGES) for name in stage}
    complaints: list[str] = []
    for module in modules.values():
        own = _part_below(module.name, "engine")
        if own is None:  # the package's own face shows names of all stages
            continue
        if own not in rank:
            complaints.append(f"{module.path}: no stage names {own}; add it to STAGES")
            continue
        for imported in sorted(module.imports):
            other = _part_below(imported, "engine")
            if other in rank and rank[other] > rank[own]:
                complaints.append(f"{module.path} imports {imported} of a later stage")
            elif imported == "engine" or (other and f"engine.{other}" not in modules):
                complaints.append(f"{module.path} imports from the package's face; name the module")
    return complaints


def _part_below(name: str, package: str) -> str | None:
    """``b`` of ``a.b.c`` below ``a``; None if there is none."""
    if not name.startswith(f"{package}."):
        return None
    return name.removeprefix(f"{package}.").partition(".")[0]


def foreign_imports(modules: Mapping[str, Module]) -> list[str]:
    """Imports of scripts that have to run before anything is installed."""
    allowed = sys.stdlib_module_names | STANDARD_LIBRARY_ALONE
    return [
        f"{module.path} imports {imported}, which is not in the standard library"
        for module in modules.values()
        if module.name in STANDARD_LIBRARY_ALONE
        for imported in sorted(module.imports)
        if imported.partition(".")[0] not in allowed
    ]


def import_circles(modules: Mapping[str, Module]) -> list[str]:
    """Each circle once, as ``a -> b -> a``; imports inside functions count."""
    edges = {name: _targets(module, modules) for name, module in modules.items()}
    done: set[str] = set()
    circles: list[str] = []

    def follow(name: str, path: list[str]) -> None:
        if name in path:
            circles.append(" -> ".join([*path[path.index(name) :], name]))
        elif name not in done:
            for target in sorted(edges[name]):
                follow(target, [*path, name])
            done.add(name)

    for name in edges:
        follow(name, [])
    return circles


def _targets(module: Module, modules: Mapping[str, Module]) -> set[str]:
    """Modules of ours that ``module`` names; ``from a import b`` names ``a.b`` if there is one."""
    found = (
        imported if imported in modules else imported.rpartition(".")[0]
        for imported in module.runtime_imports
    )
    return {name for name in found if name in modules and name != module.name}


def oversized(modules: Mapping[str, Module]) -> list[str]:
    """Files, functions and parameter lists that grew past what one can hold in mind."""
    complaints: list[str] = []
    for module in modules.values():
        if module.num_lines > MAX_FILE_LINES:
            complaints.append(f"{module.path} has {module.num_lines} lines")
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            num_lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if num_lines > MAX_FUNCTION_LINES:
                complaints.append(f"{module.path}: {node.name} has {num_lines} lines")
            num_parameters = _num_parameters(node)
            if num_parameters > MAX_PARAMETERS:
                complaints.append(f"{module.path}: {node.name} has {num_parameters} parameters")
    return complaints


def _num_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))
