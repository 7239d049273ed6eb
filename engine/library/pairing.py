"""Which folders can draft for a model: a smaller model with the same vocabulary, or a head that
was trained for it.

Vocabularies are compared by what is in them, token by token, and never by their size: padding
makes sizes differ where the tokens are the same, and other tokens come in the same number. Whether
a pair pays is not asked here; that is measured. Nothing is compiled and no weights are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engine.errors import PacelineError, PlanRefusedError
from engine.library.folder import MODEL_FILES, ModelInfo, read_json, read_model_folder
from engine.library.vocabulary import Pieces, first_difference, read_vocabulary

_MAX_DEPTH = 2
"""Folders below a root in which models lie: ``root/model`` and ``root/owner/model``."""
_NOTES_BYTES = 1 << 16
_EAGLE3_NOTE = re.compile(rb'<eagle3_mode\s+value="True"')


class CandidateKind(StrEnum):
    """What a folder is, as a drafter."""

    MODEL = "fast_draft"
    EAGLE3 = "eagle3"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A folder, and whether it can draft for the target; ``reason`` is a sentence for people."""

    folder: Path
    kind: CandidateKind
    compatible: bool
    reason: str

    def to_json(self) -> dict[str, object]:
        """The candidate as ``models pair --json`` shows it."""
        return {
            "folder": str(self.folder),
            "kind": self.kind.value,
            "compatible": self.compatible,
            "reason": self.reason,
        }


def shared_vocabulary(target: ModelInfo, draft: ModelInfo) -> int:
    """How many tokens both models have; ids beyond are padding in both, and no draft.

    Raises:
        PlanRefusedError: an id stands for different tokens; names both models and the first such
            token.
        ModelUnusableError: a vocabulary cannot be read.
    """
    ours = read_vocabulary(target.path)
    return _compare(target.name, ours, draft.name, read_vocabulary(draft.path))


def pair_candidates(target: Path, roots: Sequence[Path]) -> list[Candidate]:
    """Every folder with a model below ``roots``, the target's own apart, by path.

    Raises:
        ModelNotFoundError, ModelUnusableError: the target itself cannot be read.
    """
    info = read_model_folder(target)
    vocabulary = read_vocabulary(info.path)
    own = info.path.resolve()
    folders = {found.resolve(): found for root in roots for found in _model_folders(root)}
    return [
        _judge(info, vocabulary, folder) for real, folder in sorted(folders.items()) if real != own
    ]


def candidate_kind(folder: Path) -> CandidateKind:
    """What the folder's model is, by the note that its exporter left at the end of the graph."""
    with (folder / MODEL_FILES[0]).open("rb") as graph:
        graph.seek(0, 2)
        graph.seek(max(0, graph.tell() - _NOTES_BYTES))
        is_head = _EAGLE3_NOTE.search(graph.read())
    return CandidateKind.EAGLE3 if is_head else CandidateKind.MODEL


def _judge(target: ModelInfo, vocabulary: Pieces, folder: Path) -> Candidate:
    kind = CandidateKind.MODEL
    try:
        kind = candidate_kind(folder)
        if kind is CandidateKind.EAGLE3:
            reason = _fit_head(target, folder)
        else:
            reason = _fit_model(target, vocabulary, folder)
    except PacelineError as refusal:
        return Candidate(folder, kind, False, refusal.message)
    except OSError as error:
        return Candidate(folder, kind, False, f"{folder} cannot be read ({error}).")
    return Candidate(folder, kind, True, reason)


def _fit_model(target: ModelInfo, vocabulary: Pieces, folder: Path) -> str:
    draft = read_model_folder(folder)
    size = _compare(target.name, vocabulary, draft.name, read_vocabulary(folder))
    said = f"The same {size:,} tokens, and {_share(draft, target)} of the weights"
    if draft.weight_bytes >= target.weight_bytes:
        return f"{said}: it will hardly draft faster than {target.name} answers."
    return f"{said}."


def _fit_head(target: ModelInfo, folder: Path) -> str:
    """A head has no tokenizer of its own, so that sizes are all there is to go by."""
    config = read_json(folder / "config.json")
    for key, ours in (("hidden_size", target.hidden_size), ("vocab_size", target.vocab_size)):
        theirs = config.get(key)
        if ours is not None and isinstance(theirs, int) and theirs != ours:
            raise PlanRefusedError(
                f"{folder.name} was trained for another model than {target.name}: its {key} is "
                f"{theirs:,}, not {ours:,}.",
                param="drafter",
            )
    return f"A head for models of this size; whether it was trained for {target.name} shows in use."


def _compare(name: str, ours: Pieces, other_name: str, theirs: Pieces) -> int:
    token = first_difference(ours, theirs)
    if token is None:
        return len(ours)
    raise PlanRefusedError(
        f"{name} and {other_name} have different vocabularies: token {token} is "
        f"{_show(ours, token)} in the first and {_show(theirs, token)} in the second. Choose a "
        "draft model with the tokenizer of its target.",
        param="drafter",
    )


def _show(pieces: Pieces, token: int) -> str:
    if token >= len(pieces) or not pieces[token]:
        return "missing"
    try:
        return repr(pieces[token].decode())
    except UnicodeDecodeError:  # a part of a character
        return repr(pieces[token])


def _share(draft: ModelInfo, target: ModelInfo) -> str:
    return f"{draft.weight_bytes / max(1, target.weight_bytes):.0%}"


def _model_folders(root: Path, depth: int = 0) -> Iterator[Path]:
    """``root`` if it has a model, else the folders below it that have."""
    if (root / MODEL_FILES[0]).is_file():
        yield root
    elif depth < _MAX_DEPTH:
        for folder in _folders_in(root):
            yield from _model_folders(folder, depth + 1)


def _folders_in(root: Path) -> Iterable[Path]:
    try:
        return sorted(path for path in root.iterdir() if path.is_dir())
    except OSError:  # what nobody may look into holds no candidate
        return ()
