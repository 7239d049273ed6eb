"""Where the committed models lie, and what is written beside them. Needs numpy alone.

Each folder is what a user gets from ``optimum-cli export openvino``, and holds besides

* ``acceptance.json``: what :mod:`tests.models.acceptance` measured, of drafters;
* ``reference.npz``: what torch computes for a fixed input (:mod:`tests.models.reference`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ARTEFACTS = Path(__file__).parent / "artefacts"
TARGET = ARTEFACTS / "target"
DRAFT = ARTEFACTS / "draft"
OTHER = ARTEFACTS / "other"
EAGLE3 = ARTEFACTS / "eagle3"

ACCEPTANCE_FILE = "acceptance.json"
REFERENCE_FILE = "reference.npz"


def acceptance(folder: Path) -> dict[str, Any]:
    """The measured acceptance of a drafter's folder."""
    return json.loads((folder / ACCEPTANCE_FILE).read_text(encoding="utf-8"))


def reference(folder: Path) -> dict[str, NDArray[Any]]:
    """Inputs and outputs of the torch model; names and shapes in :mod:`tests.models.reference`."""
    with np.load(folder / REFERENCE_FILE) as arrays:
        return dict(arrays)
