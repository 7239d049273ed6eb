"""Text that any Python installation carries, as documents for training and held-out measuring.

Three kinds: the sources of the standard library, the language reference (``pydoc_data.topics``),
and conversations made from both, so that a chat prompt means something to the model. Order and
split depend on names alone, so two runs under one Python version see the same text. It is not a
benchmark corpus: another Python version gives other text, and so slightly other models.
"""

from __future__ import annotations

import ast
import random
import sysconfig
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from pydoc_data.topics import topics
from typing import TypeVar

SKIPPED_FOLDERS = frozenset(
    # Tests and tables say little; the rest is either not the library's own or not its style.
    {"test", "tests", "idlelib", "lib2to3", "encodings", "site-packages", "pydoc_data"}
    | {"__pycache__", "_bundled", "turtledemo", "tkinter", "distutils"}
)
MAX_SOURCE_CHARS = 250_000
MIN_SNIPPET_CHARS, MAX_SNIPPET_CHARS = 120, 1_200
MAX_TOPIC_ANSWER_CHARS = 1_500
HELD_OUT_EVERY = 20

IM_START, IM_END = "<|im_start|>", "<|im_end|>"

Item = TypeVar("Item")


class Split(Enum):
    """Which part of the text. Whole files and topics belong to one part."""

    TRAINING = "training"
    HELD_OUT = "held out"


@dataclass(frozen=True, slots=True)
class Turn:
    """One question and its answer."""

    question: str
    answer: str

    def render(self) -> str:
        """The text that the tokenizers' chat template gives for this conversation."""
        return (
            f"{IM_START}user\n{self.question}{IM_END}\n{IM_START}assistant\n{self.answer}{IM_END}\n"
        )


def sources(split: Split) -> Iterator[str]:
    """The standard library's modules, sorted by path."""
    root = Path(sysconfig.get_path("stdlib"))
    paths = sorted(
        path
        for path in root.rglob("*.py")
        if not SKIPPED_FOLDERS.intersection(path.relative_to(root).parts)
        and not path.name.startswith("_sysconfigdata")
        and path.stat().st_size <= MAX_SOURCE_CHARS
    )
    for path in _part(paths, split):
        yield path.read_text(encoding="utf-8", errors="ignore")


def reference_topics(split: Split) -> Iterator[tuple[str, str]]:
    """(name, text) of the chapters of the language reference, sorted by name."""
    yield from _part(sorted(topics.items()), split)


def documents(split: Split) -> list[str]:
    """All text of one part, conversations among it, in a fixed shuffled order."""
    modules = list(sources(split))
    texts = modules + [text for _, text in reference_topics(split)]
    texts += [turn.render() for turn in turns(split)]
    random.Random(0).shuffle(texts)
    return texts


def turns(split: Split) -> Iterator[Turn]:
    """Conversations about functions and classes of the sources and topics of the reference."""
    for source in sources(split):
        yield from _turns_about(source)
    for name, text in reference_topics(split):
        answer = text.strip()[:MAX_TOPIC_ANSWER_CHARS]
        yield Turn(f"What does the language reference say about {name}?", answer)


def _part(items: Iterable[Item], split: Split) -> Iterator[Item]:
    for index, item in enumerate(items):
        if (index % HELD_OUT_EVERY == HELD_OUT_EVERY - 1) == (split is Split.HELD_OUT):
            yield item


def _turns_about(source: str) -> Iterator[Turn]:
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a few modules keep broken text on purpose
        return
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef))
    lines = source.splitlines()  # once: ast.get_source_segment would split it for every node
    for index, node in enumerate(nodes):
        snippet = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
        if not MIN_SNIPPET_CHARS <= len(snippet) <= MAX_SNIPPET_CHARS:
            continue
        docstring = ast.get_docstring(node)
        if docstring is None or index % 3 == 0:
            yield _completion(snippet)
        elif index % 3 == 1:
            yield Turn(f"Explain this code:\n{_fenced(_without_docstring(lines, node))}", docstring)
        else:
            first = docstring.partition("\n\n")[0]
            question = f"Write `{node.name}` in Python: {first}"
            yield Turn(question, _fenced(_without_docstring(lines, node)))


def _completion(snippet: str) -> Turn:
    lines = snippet.splitlines(keepends=True)
    half = max(1, len(lines) // 2)
    start, rest = "".join(lines[:half]), "".join(lines[half:])
    return Turn(f"Complete this code:\n{_fenced(start)}", _fenced(rest))


def _without_docstring(lines: list[str], node: ast.FunctionDef | ast.ClassDef) -> str:
    first = node.body[0]
    kept = lines[node.lineno - 1 : first.lineno - 1] + lines[first.end_lineno : node.end_lineno]
    return textwrap.dedent("\n".join(kept))


def _fenced(code: str) -> str:
    return f"```python\n{code.rstrip()}\n```"
