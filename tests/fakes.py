"""A target that is a table, the backend that runs it, and a drafter that does as it is told.

The table makes every law exactly computable; the backend keeps its own record of what should be
in the cache and checks every rule of the `Backend` protocol, so that a loop that breaks one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.backends.base import Backend, Batch, Capabilities, Output, Slice
from engine.drafters.base import DraftContext, Drafter, DraftLimit, Needs, PrefillChunk
from engine.errors import CacheTooSmallError
from engine.values import (
    ROOT,
    DraftTree,
    FloatArray,
    IntArray,
    Scores,
    SeqId,
    SliceKind,
    Verdict,
)


class TableTarget:
    """Next-token logits as a function of the last two tokens, drawn once from ``seed``.

    ``spread`` is the standard deviation of the logits: larger is more certain.
    """

    def __init__(self, vocab_size: int, seed: int = 0, spread: float = 1.5) -> None:
        random = np.random.default_rng(seed)
        self.vocab_size = vocab_size
        # The last entry of the first axis stands for "there is no token before the last one".
        self._table = random.normal(0.0, spread, (vocab_size + 1, vocab_size, vocab_size))
        self._table = self._table.astype(np.float32)

    def logits(self, tokens: Sequence[int]) -> FloatArray:
        """float32[V] after ``tokens``, of which there is at least one."""
        before = tokens[-2] if len(tokens) > 1 else self.vocab_size
        return self._table[before, tokens[-1]]

    def likeliest(self, tokens: Sequence[int]) -> int:
        """The largest logit's token, before any processor."""
        return int(self.logits(tokens).argmax())


def scores_of(
    logits: FloatArray,
    num_top: int,
    inverse_temperature: float = 1.0,
    full: Callable[[int], FloatArray] | None = None,
) -> Scores:
    """`Scores` of rows float32[s, V] as a backend would give them, in single precision."""
    order = np.argsort(-logits, axis=1, kind="stable")[:, :num_top]
    log_total = _log_sum_exp(logits.astype(np.float64))
    log_probs = logits - log_total[:, None]
    entropy = -(np.exp(log_probs) * log_probs).sum(axis=1)
    return Scores(
        ids=order.astype(np.int32),
        logits=np.take_along_axis(logits, order, axis=1),
        log_sum_exp=log_total.astype(np.float32),
        log_sum_exp_t=_log_sum_exp(logits * np.float64(inverse_temperature)).astype(np.float32),
        entropy=entropy.astype(np.float32),
        full=full or (lambda row: logits[row].copy()),
    )


def _log_sum_exp(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    largest = rows.max(axis=1, keepdims=True)
    return largest[:, 0] + np.log(np.exp(rows - largest).sum(axis=1))


class TokenCache:
    """A cache with blocks of one row. Implements `backends.base.Cache`."""

    def __init__(self, total_tokens: int) -> None:
        self._total = total_tokens
        self.reserved: dict[SeqId, int] = {}

    @property
    def total_tokens(self) -> int:
        return self._total

    @property
    def free_tokens(self) -> int:
        return self._total - sum(self.reserved.values())

    def can_admit(self, length: int) -> bool:
        return length + len(self.reserved) <= self.free_tokens

    def can_reserve(self, seq: SeqId, length: int) -> bool:
        return length - self.reserved.get(seq, 0) <= self.free_tokens

    def reserve(self, seq: SeqId, length: int) -> None:
        if not self.can_reserve(seq, length):
            raise CacheTooSmallError(f"{length} rows wanted, {self.free_tokens} free")
        self.reserved[seq] = max(length, self.reserved.get(seq, 0))

    def trim(self, seq: SeqId, length: int) -> None:
        self.reserved[seq] = min(length, self.reserved.get(seq, 0))

    def release(self, seq: SeqId) -> None:
        self.reserved.pop(seq, None)


@dataclass(slots=True)
class _Record:
    """What the cache of one sequence holds, and what is still to be decided about it."""

    committed: list[int] = field(default_factory=list[int])
    undecided: Slice | None = None


class TableBackend(Backend):
    """Runs a `TableTarget`. Every broken rule of the protocol is an AssertionError.

    ``num_top`` is the K of the scores; smaller than the vocabulary, it puts tokens into the tail.
    """

    def __init__(
        self,
        target: TableTarget,
        *,
        num_top: int | None = None,
        cache_tokens: int = 4096,
        max_sequences: int = 16,
        trees: bool = True,
    ) -> None:
        self._target = target
        self._num_top = min(num_top or target.vocab_size, target.vocab_size)
        self._cache = TokenCache(cache_tokens)
        self._records: dict[SeqId, _Record] = {}
        self._capabilities = Capabilities(
            max_sequences=max_sequences, trees=trees, features=False, embeddings=False
        )
        self.num_passes = 0
        self.batches: list[Batch] = []
        self.closed = False

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def cache(self) -> TokenCache:
        return self._cache

    @property
    def vocab_size(self) -> int:
        return self._target.vocab_size

    def committed(self, seq: SeqId) -> list[int]:
        """The tokens whose rows are in the cache."""
        return list(self._records[seq].committed)

    @property
    def open_sequences(self) -> set[SeqId]:
        """Sequences that were not released."""
        return set(self._records) | set(self._cache.reserved)

    def forward(self, batch: Batch) -> Output:
        assert not self.closed
        seqs = [part.seq for part in batch.slices]
        assert len(set(seqs)) == len(seqs), "a sequence appears twice in a batch"
        assert 0 < len(seqs) <= self._capabilities.max_sequences
        self.num_passes += 1
        self.batches.append(batch)
        return Output(tuple(self._run(part) for part in batch.slices))

    def commit(self, kept: Mapping[SeqId, IntArray]) -> None:
        for seq, kept_rows in kept.items():
            record = self._records[seq]
            part = record.undecided
            assert part is not None, "rows are kept of a sequence that verified nothing"
            rows = kept_rows.tolist()
            parents = _parents(part)
            assert rows, "the pending token's row is always kept"
            assert rows[0] == 0
            assert all(parents[row] == before for before, row in zip(rows, rows[1:], strict=False))
            record.committed.extend(int(part.tokens[row]) for row in rows)
            record.undecided = None
            self._cache.trim(seq, len(record.committed))

    def restore(self, seq: SeqId, length: int) -> None:
        record = self._records[seq]
        assert length <= len(record.committed)
        del record.committed[length:]
        record.undecided = None
        self._cache.trim(seq, length)

    def release(self, seq: SeqId) -> None:
        self._records.pop(seq, None)
        self._cache.release(seq)

    def close(self) -> None:
        self.closed = True

    def _run(self, part: Slice) -> Scores:
        record = self._records.setdefault(part.seq, _Record())
        parents = _parents(part)
        self._check(part, record, parents)
        contexts: list[list[int]] = []
        for row, parent in enumerate(parents):
            before = record.committed if parent == ROOT else contexts[parent]
            contexts.append([*before[-1:], int(part.tokens[row])])
        if part.kind is SliceKind.PREFILL:
            record.committed.extend(part.tokens.tolist())
        else:
            record.undecided = part
        rows = [self._target.logits(contexts[row]) for row in part.scored]
        logits = np.array(rows, np.float32).reshape(len(rows), self.vocab_size)
        made_in = self.num_passes

        def full(row: int) -> FloatArray:
            assert made_in == self.num_passes, "the whole row of an earlier pass"
            return logits[row].copy()

        return scores_of(logits, self._num_top, part.inverse_temperature, full)

    def _check(self, part: Slice, record: _Record, parents: list[int]) -> None:
        assert record.undecided is None, "the last verification was never committed"
        assert part.num_rows > 0
        assert part.past_len == len(record.committed), "past_len is not what was committed"
        room = self._cache.reserved.get(part.seq, 0)
        assert part.past_len + part.num_rows <= room, "rows without reserved room"
        assert parents[0] == ROOT
        assert all(0 <= parent < row for row, parent in enumerate(parents) if row)
        is_chain = parents == list(range(-1, part.num_rows - 1))
        assert is_chain or self._capabilities.trees
        assert part.kind is SliceKind.VERIFY or is_chain, "a prompt does not branch"
        depths: list[int] = []
        for parent in parents:
            depths.append(0 if parent == ROOT else depths[parent] + 1)
        assert (part.positions == part.past_len + np.array(depths)).all()
        assert all(0 <= row < part.num_rows for row in part.scored)
        assert all(0 <= token < self.vocab_size for token in part.tokens)


def _parents(part: Slice) -> list[int]:
    if part.parents is None:
        return list(range(-1, part.num_rows - 1))
    assert len(part.parents) == part.num_rows
    return [int(parent) for parent in part.parents]


def prefill_slice(seq: SeqId, tokens: Sequence[int], past_len: int = 0) -> Slice:
    """A chunk of a prompt; its last row is scored."""
    return Slice(
        seq=seq,
        kind=SliceKind.PREFILL,
        past_len=past_len,
        tokens=np.array(tokens, np.int32),
        positions=past_len + np.arange(len(tokens), dtype=np.int64)[None],
        scored=np.array([len(tokens) - 1], np.int32),
    )


def verify_slice(
    seq: SeqId, past_len: int, pending: int, tree: DraftTree, inverse_temperature: float = 1.0
) -> Slice:
    """The pending token and every node of ``tree``, all of them scored."""
    depths = np.concatenate(([0], tree.depths()))
    return Slice(
        seq=seq,
        kind=SliceKind.VERIFY,
        past_len=past_len,
        tokens=np.concatenate(([pending], tree.tokens)).astype(np.int32),
        positions=(past_len + depths).astype(np.int64)[None],
        scored=np.arange(1 + len(tree), dtype=np.int32),
        parents=np.concatenate(([ROOT], 1 + tree.parents)).astype(np.int32),
        inverse_temperature=inverse_temperature,
    )


Script = Callable[[Sequence[int], int], DraftTree]
"""``script(tokens, max_tokens)``: what to propose after ``tokens`` (prompt and answer so far)."""


class ScriptedDrafter(Drafter):
    """Proposes what ``script`` says, and checks that it is told of every token."""

    def __init__(self, script: Script, *, name: str = "scripted", trees: bool = True) -> None:
        self._script = script
        self._name = name
        self._needs = Needs(trees=trees, model_free=True)
        self.tokens: dict[SeqId, list[int]] = {}
        self.verdicts: list[Verdict] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def needs(self) -> Needs:
        return self._needs

    def on_prefill(self, chunks: Sequence[PrefillChunk]) -> None:
        for chunk in chunks:
            self.tokens.setdefault(chunk.seq, []).extend(chunk.tokens.tolist())

    def propose(self, contexts: Sequence[DraftContext], limit: DraftLimit) -> list[DraftTree]:
        trees: list[DraftTree] = []
        for context in contexts:
            tokens = self.tokens[context.seq]
            assert len(tokens) == context.num_tokens, "the drafter was not told of every token"
            tree = self._script(tokens, context.max_tokens)
            assert len(tree) <= context.max_tokens
            trees.append(tree)
        return trees

    def observe(
        self, verdicts: Sequence[Verdict], features: Sequence[FloatArray] | None = None
    ) -> None:
        for verdict in verdicts:
            self.verdicts.append(verdict)
            emitted = (token.token for token in verdict.emitted)
            self.tokens.setdefault(verdict.seq, []).extend(emitted)

    def restore(self, seq: SeqId, length: int) -> None:
        del self.tokens[seq][length:]

    def release(self, seq: SeqId) -> None:
        self.tokens.pop(seq, None)


def tree_of(tokens: Sequence[int], parents: Sequence[int] | None = None) -> DraftTree:
    """A tree from plain lists; ``parents`` None means a chain. Evidence is one column of ones."""
    evidence = np.ones((len(tokens), 1), np.float32)
    array: IntArray = np.array(tokens, np.int32)
    if parents is None:
        return DraftTree.chain(array, evidence)
    return DraftTree(array, np.array(parents, np.int32), evidence)


def in_turn(trees: Iterable[DraftTree]) -> Script:
    """A script that proposes ``trees`` in turn, then nothing; cut to what is allowed."""
    left = iter(trees)

    def script(tokens: Sequence[int], max_tokens: int) -> DraftTree:
        tree = next(left, DraftTree.empty())
        return tree.keep(np.arange(min(len(tree), max_tokens)))

    return script


def noisy_copy(
    target: TableTarget, *, accuracy: float, num_children: int = 1, seed: int = 0
) -> Script:
    """A script that drafts what the target finds likeliest, each token right with ``accuracy``.

    Each node has up to ``num_children`` children with different tokens.
    """
    random = np.random.default_rng(seed)

    def children(context: Sequence[int]) -> list[int]:
        guesses = random.permutation(target.vocab_size)[:num_children].tolist()
        likeliest = target.likeliest(context)
        if random.random() < accuracy and likeliest not in guesses:
            guesses[int(random.integers(len(guesses)))] = likeliest
        return guesses

    def script(tokens: Sequence[int], max_tokens: int) -> DraftTree:
        drafted: list[int] = []
        parents: list[int] = []
        paths: list[list[int]] = []
        open_nodes = [ROOT]
        while open_nodes and len(drafted) < max_tokens:
            node = open_nodes.pop(0)
            path = [] if node == ROOT else paths[node]
            for token in children([*tokens, *path])[: max_tokens - len(drafted)]:
                open_nodes.append(len(drafted))
                paths.append([*path, token])
                drafted.append(token)
                parents.append(node)
        return tree_of(drafted, parents)

    return script
