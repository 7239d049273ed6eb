"""Whether a draft model fits into memory beside its target, before either is loaded. Pure.

An estimate from what the folders say: weights take what they take on disk, and the draft model's
cache holds as many rows as the target's. Only what a draft adds is judged; a target that does not
fit alone is not its fault.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.library.folder import ModelInfo

_USABLE = 0.9
"""Share of a device's memory that models may take: the system and its programs need some."""
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes that the target takes with its cache, that a draft model takes on top, and that models
    may take in all."""

    target_bytes: int
    draft_bytes: int
    usable_bytes: int

    @property
    def draft_is_too_much(self) -> bool:
        """True where the target fits, and target and draft together do not."""
        together = self.target_bytes + self.draft_bytes
        return self.target_bytes <= self.usable_bytes < together

    def describe(self) -> str:
        """The figures as the end of a sentence: ``needs ...``."""
        return (
            f"needs {_gib(self.draft_bytes)} beside {_gib(self.target_bytes)} of its target, and "
            f"{_gib(self.usable_bytes)} may be used here"
        )


def memory_need(
    target: ModelInfo, draft: ModelInfo, cache_bytes: int, memory_bytes: int
) -> MemoryNeed:
    """What both need, where ``cache_bytes`` is the target's cache, and both share a memory of
    ``memory_bytes`` in all."""
    ours, theirs = _row_size(target), _row_size(draft)
    # A folder that does not tell its sizes is taken for as large as the target.
    share = theirs / ours if ours and theirs else 1.0
    return MemoryNeed(
        target_bytes=target.weight_bytes + cache_bytes,
        draft_bytes=draft.weight_bytes + int(cache_bytes * share),
        usable_bytes=int(memory_bytes * _USABLE),
    )


def _row_size(model: ModelInfo) -> int | None:
    """Numbers in one row of the cache, keys and values of all layers."""
    if model.num_layers is None or model.num_kv_heads is None or model.head_dim is None:
        return None
    return 2 * model.num_layers * model.num_kv_heads * model.head_dim


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f} GiB"
