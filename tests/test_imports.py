"""The house keeps its rules (`code_rules`), and the checker notices when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import code_rules
from tests.code_rules import Module

ROOT = Path(__file__).parents[1]
SOURCES = ("engine", "app", "resources")


@pytest.fixture(scope="module")
def modules() -> dict[str, Module]:
    return code_rules.read_modules(ROOT, SOURCES)


def made_up(tmp_path: Path, files: dict[str, str]) -> dict[str, Module]:
    """Modules of a small tree with the given sources."""
    for name, source in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return code_rules.read_modules(tmp_path, SOURCES)


def test_reads_the_whole_tree(modules: dict[str, Module]) -> None:
    assert {"dev", "engine.values", "engine.library.folder"} <= modules.keys()


def test_no_import_crosses_a_closed_border(modules: dict[str, Module]) -> None:
    assert code_rules.banned_imports(modules) == []


def test_no_drafter_imports_another(modules: dict[str, Module]) -> None:
    assert code_rules.drafters_that_import_each_other(modules) == []


def test_no_stage_imports_a_later_one(modules: dict[str, Module]) -> None:
    assert code_rules.stages_out_of_order(modules) == []


def test_there_are_no_import_circles(modules: dict[str, Module]) -> None:
    assert code_rules.import_circles(modules) == []


def test_setting_up_needs_the_standard_library_alone(modules: dict[str, Module]) -> None:
    assert code_rules.foreign_imports(modules) == []


def test_files_and_functions_stay_small() -> None:
    assert code_rules.oversized(code_rules.read_modules(ROOT, (*SOURCES, "tests"))) == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("engine/loop.py", "from PySide6 import QtCore"),
        ("engine/loop.py", "import app.main"),
        ("engine/loop.py", "def late():\n    import pyqtgraph.exporters"),
        ("engine/loop.py", "if TYPE_CHECKING:\n    from app import window"),
        ("app/window.py", "from engine.values import Origin"),
        ("app/window.py", "import openvino.properties as props"),
        ("app/window.py", "from engine import load_engine"),
        ("resources/__init__.py", "import app"),
        ("engine/drafters/suffix.py", "from engine.backends.paged import PagedBackend"),
        ("engine/drafters/suffix.py", "from engine.backends import paged"),
        ("engine/drafters/suffix.py", "from ..backends import paged"),
    ],
)
def test_notices_a_crossed_border(tmp_path: Path, name: str, source: str) -> None:
    (complaint,) = code_rules.banned_imports(made_up(tmp_path, {name: source}))
    assert complaint.startswith(str(Path(name)))


def test_lets_pass_what_only_looks_like_a_crossed_border(tmp_path: Path) -> None:
    files = {
        "engine/loop.py": "import application\nfrom engine import app_notes",
        "engine/drafters/suffix.py": "from engine.backends.base import Backend",
        "app/window.py": "from resources import icons\nimport engineering",
    }
    assert code_rules.banned_imports(made_up(tmp_path, files)) == []


def test_notices_drafters_that_know_each_other(tmp_path: Path) -> None:
    drafters = "engine/drafters"
    files = {
        f"{drafters}/__init__.py": "from engine.drafters.base import Drafter",
        f"{drafters}/base.py": "",
        f"{drafters}/suffix.py": "from engine.drafters.base import Drafter",
        f"{drafters}/eagle/__init__.py": "",
        f"{drafters}/eagle/tree.py": "from engine.drafters.eagle import head",
        f"{drafters}/combine.py": "from engine.drafters import eagle, suffix",
        f"{drafters}/dflash.py": "from engine.drafters import suffix",
    }
    complaints = code_rules.drafters_that_import_each_other(made_up(tmp_path, files))
    assert complaints == [f"{Path(drafters, 'dflash.py')} imports the drafter suffix"]


def test_notices_an_import_of_a_later_stage(tmp_path: Path) -> None:
    files = {
        "engine/__init__.py": "from engine.loop import Engine",
        "engine/values.py": "",
        "engine/verify.py": "from engine.values import Verdict\nfrom engine.loop import Engine",
        "engine/loop.py": "from engine.verify import verify",
    }
    complaints = code_rules.stages_out_of_order(made_up(tmp_path, files))
    assert complaints == [f"{Path('engine/verify.py')} imports engine.loop.Engine of a later stage"]


def test_notices_a_stage_that_imports_the_face_of_the_engine(tmp_path: Path) -> None:
    files = {"engine/__init__.py": "", "engine/cli.py": "from engine import load_engine"}
    (complaint,) = code_rules.stages_out_of_order(made_up(tmp_path, files))
    assert "face" in complaint


def test_notices_a_module_without_a_stage(tmp_path: Path) -> None:
    (complaint,) = code_rules.stages_out_of_order(made_up(tmp_path, {"engine/misc.py": ""}))
    assert "no stage names misc" in complaint


def test_notices_a_circle_through_a_relative_import(tmp_path: Path) -> None:
    files = {
        "engine/a.py": "from engine import b",
        "engine/b.py": "def late():\n    from .c import thing",
        "engine/c.py": "import engine.a",
        "engine/d.py": "import engine.a",
    }
    circles = code_rules.import_circles(made_up(tmp_path, files))
    assert circles == ["engine.a -> engine.b -> engine.c -> engine.a"]


def test_a_circle_of_types_alone_is_none(tmp_path: Path) -> None:
    files = {
        "engine/a.py": "if TYPE_CHECKING:\n    from engine.b import B",
        "engine/b.py": "from engine.a import A",
    }
    assert code_rules.import_circles(made_up(tmp_path, files)) == []


def test_notices_a_package_in_the_script_that_installs_packages(tmp_path: Path) -> None:
    modules = made_up(tmp_path, {"dev.py": "import json\nimport dev_system\nimport requests"})
    assert code_rules.foreign_imports(modules) == [
        "dev.py imports requests, which is not in the standard library"
    ]


def test_notices_what_grew_too_large(tmp_path: Path) -> None:
    parameters = ", ".join(f"p{number}" for number in range(code_rules.MAX_PARAMETERS + 1))
    body = "    pass\n" * code_rules.MAX_FUNCTION_LINES
    rest = "\n" * code_rules.MAX_FILE_LINES
    files = {
        "engine/a.py": f"def wide({parameters}): ...\n",
        "engine/b.py": f"async def long():\n{body}",
        "engine/c.py": rest + "\n",
        "engine/d.py": f"class A:\n    def fits(self, {parameters[4:]}): ...\n{rest[:-2]}",
    }
    complaints = code_rules.oversized(made_up(tmp_path, files))
    assert [complaint.split()[-1] for complaint in complaints] == ["parameters", "lines", "lines"]
