"""``paceline models ...``: the model folders of this machine.

``pair`` lists what could draft for a model. It reads small files only, and changes nothing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.cli.terminal import say, tell
from engine.errors import ModelNotFoundError
from engine.library.pairing import Candidate, pair_candidates
from engine.paths import Folders


def run(args: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Run the action that was asked for; ``pair`` is the only one."""
    model: Path = args.model
    roots: list[Path] = args.roots or []
    for root in roots:
        if not root.is_dir():
            raise ModelNotFoundError(f"There is no folder {root}; check the path.")
    roots = roots or [Folders.from_environment(environ).models, model.absolute().parent]
    candidates = pair_candidates(model, roots)
    if args.json:
        listed = [candidate.to_json() for candidate in candidates]
        say(json.dumps(listed, ensure_ascii=False, indent=2))
    elif candidates:
        say("\n".join(_lines(candidates)))
    else:
        tell(f"There is no other model in {' or '.join(map(str, roots))}; try --root.")
    return 0


def _lines(candidates: Sequence[Candidate]) -> list[str]:
    """One line each: verdict, kind, folder, reason."""
    width = max(len(str(candidate.folder)) for candidate in candidates)
    return [
        f"{'yes' if candidate.compatible else 'no':3}  {candidate.kind:10}  "
        f"{candidate.folder!s:{width}}  {candidate.reason}"
        for candidate in candidates
    ]
