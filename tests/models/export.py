"""Export with optimum-cli, as a user would: ``python -m tests.models.export target --out DIR``.

The tokenizers are converted along; an EAGLE3 head has none. What a test needs stays in
``DIR/NAME/openvino``; what only transformers reads is dropped.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.models.recipes import EAGLE3
from tests.models.train import NAMES, weight_format

READ_BY_TRANSFORMERS_ALONE = ("tokenizer.json",)


def export(name: str, out: Path) -> Path:
    """Export the trained model of this name; the folder of its intermediate representation."""
    source, folder = out / name / "torch", out / name / "openvino"
    shutil.rmtree(folder, ignore_errors=True)
    command = [
        str(Path(sys.executable).with_name("optimum-cli")),
        *("export", "openvino"),
        *("--model", str(source)),
        *("--task", "text-generation-with-past"),
        *("--weight-format", weight_format(name)),
        # A head has no tokenizer of its own, and would be given an empty one.
        *(["--disable-convert-tokenizer"] if name == EAGLE3.name else []),
        "--trust-remote-code",
        str(folder),
    ]
    with tempfile.TemporaryDirectory() as stand_in:
        # The export of an EAGLE3 head scans for imports and asks for diffusers, which it never
        # uses and which does not install beside this optimum-intel. An empty module will do.
        (Path(stand_in) / "diffusers.py").touch()
        search_path = os.pathsep.join([stand_in, os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": search_path, "HF_HUB_OFFLINE": "1"}
        subprocess.run(command, check=True, env=environment)
    for dropped in READ_BY_TRANSFORMERS_ALONE:
        (folder / dropped).unlink(missing_ok=True)
    return folder


def main() -> None:
    """Read the options and export."""
    parser = argparse.ArgumentParser(description="Export a trained test model.")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--out", type=Path, required=True, help="the folder of the training")
    options = parser.parse_args()
    print(export(options.name, options.out))


if __name__ == "__main__":
    main()
