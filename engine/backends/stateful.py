"""The stateful backend: one sequence at a time in the key/value state that the model itself keeps.

Rejected rows are cut off by a reset that keeps the rows before them (`graph.kept_rows`), which
costs 0.01 ms. The two other ways were measured on SmolLM2-135M: copying the state out, shorter, and
in again takes as long as one to five steps, and leaving rejected rows behind a mask only puts that
off, while attention walks over them and sliding windows count them. The copy is what is left for
models whose attention the plugin does not fuse with its state.

What a device does its own way is in `_State` alone. The NPU will have another: static shapes with
the rows at the end of padded inputs, positions as the place to write, so that nothing has to be cut
and there is no ``beam_idx``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import openvino as ov

from engine.backends.base import Backend, Batch, Capabilities, Output, Slice
from engine.backends.binding import BoundModel, require_known_inputs
from engine.backends.packing import pack_alone
from engine.backends.settings import BackendSettings
from engine.config import CachePrecision
from engine.graph import score_heads
from engine.graph.kept_rows import KEPT_ROWS, add_kept_rows
from engine.graph.projection import SCORED_ROWS, score_only_wanted_rows
from engine.graph.taps import add_taps
from engine.kv import BlockPool
from engine.values import IntArray, SeqId, SliceKind

_ROWS_PER_BLOCK = 32
"""The state has no blocks, but ``num_kv_blocks`` should mean the same as in the paged cache."""

_SLOW_CUTS = (
    "Slow rejections: OpenVINO does not fuse this model's attention with its state, so that each "
    "rejected draft costs a copy of the state; on the paged backend it costs nothing."
)


class StatefulBackend(Backend):
    """Runs a stateful IR as it is, for a single sequence, with chains alone.

    The runtime gives the state twice the memory that its rows need whenever it grows; the second
    half is not touched before it fills.
    """

    def __init__(self, core: ov.Core, model: ov.Model, settings: BackendSettings) -> None:
        add_taps(model, settings.taps)
        add_kept_rows(model)
        score_only_wanted_rows(model)
        score_heads.add_score_heads(model)
        require_known_inputs(model, _FED, (KEPT_ROWS,))
        bytes_per_row = _bytes_per_row(model, settings.cache_precision)
        num_blocks = settings.count_blocks(_ROWS_PER_BLOCK * bytes_per_row)
        self._pool = BlockPool(num_blocks, _ROWS_PER_BLOCK)
        self._model = BoundModel(core.compile_model(model, settings.device, settings.properties()))
        self._state = _State(self._model)
        self._seq: SeqId | None = None
        self._length = 0
        self._capabilities = Capabilities(
            max_sequences=1,
            trees=False,
            features=bool(settings.taps),
            embeddings=False,
            notes=() if self._state.survives_reset else (_SLOW_CUTS,),
        )

    @property
    def capabilities(self) -> Capabilities:
        """What this backend can do."""
        return self._capabilities

    @property
    def cache(self) -> BlockPool:
        """Room for rows, counted as if the state came in blocks."""
        return self._pool

    @property
    def vocab_size(self) -> int:
        """Width of the scores."""
        return self._model.vocab_size

    def forward(self, batch: Batch) -> Output:
        """Run the rows of the batch's only slice; `Backend.forward`."""
        (part,) = batch.slices
        assert self._seq in (None, part.seq), "another sequence has the state"
        assert part.past_len == self._length, "past_len is not what was kept"
        room = len(self._pool.blocks(part.seq)) * _ROWS_PER_BLOCK
        assert part.past_len + part.num_rows <= room, "rows without reserved room"
        self._seq = part.seq
        output = self._state.run(part)
        if part.kind is SliceKind.PREFILL:
            self._length += part.num_rows
        return output

    def commit(self, kept: Mapping[SeqId, IntArray]) -> None:
        """`Backend.commit`; room that only rejected rows had is given back."""
        for seq, rows in kept.items():
            assert seq == self._seq
            assert rows.tolist() == list(range(len(rows))), "not a chain"
            self._length += len(rows)
            self._pool.trim(seq, self._length)

    def restore(self, seq: SeqId, length: int) -> None:
        """Forget every row from position ``length`` on."""
        if seq == self._seq:
            assert length <= self._length
            self._length = length
        self._pool.trim(seq, length)

    def release(self, seq: SeqId) -> None:
        """Forget the sequence; the next one may have the state."""
        if seq == self._seq:
            self._seq = None
            self._length = 0
        self._pool.release(seq)

    def close(self) -> None:
        """Give back the compiled model and its state."""
        del self._model, self._state


class _State:
    """The state as the CPU plugin keeps it. Knows how many rows are in it, kept or not."""

    def __init__(self, model: BoundModel) -> None:
        self._model = model
        self._kept_rows = [
            _Length(model.request, index, port)
            for index, port in enumerate(model.compiled.inputs)
            if port.any_name.startswith(KEPT_ROWS)
        ]
        self._num_rows = 0
        self._room = 0
        """Rows that the state's memory holds before the runtime moves it into a larger one."""
        self.survives_reset = self._try_out()

    def run(self, part: Slice) -> Output:
        """Run the slice behind the first ``past_len`` rows of the state."""
        end = part.past_len + part.num_rows
        if part.past_len == 0 or part.past_len < self._num_rows:
            self._cut(part.past_len, end)
        output = self._model.run(pack_alone(part))
        self._num_rows = end
        if end > self._room:
            self._room = 2 * end
        return output

    def _cut(self, length: int, next_end: int) -> None:
        """Keep ``length`` rows; the next pass goes up to ``next_end``."""
        if length and not (self.survives_reset and next_end <= self._room):
            self._copy_rows(length)
            return
        for port in self._kept_rows:
            port.write(length)
        self._model.request.reset_state()

    def _copy_rows(self, length: int) -> None:
        """The slow way, for memory that the next pass would move, or that a reset empties."""
        for state in self._model.request.query_state():
            rows = state.state
            state.state = ov.Tensor(rows, [0, 0, 0, 0], [*rows.shape[:2], length, rows.shape[3]])
        self._room = length

    def _try_out(self) -> bool:
        """Whether a reset leaves the state's memory as it was, as far as ``_room`` says.

        The same rows are fed after a cut up to the very end of the room, and without a cut; their
        scores agree unless the rows before them are gone.
        """
        kept, rejected, rest = [1, 2], [3, 4], [5, 6, 7, 8, 9, 10]
        assert 2 * len(kept + rejected) == len(kept + rest)
        # Without the fusion a pass after such a reset fails, and the compiled model with it.
        if not _is_fused(self._model.compiled):
            return False
        self.survives_reset = True  # to be tried
        self.run(_trial(0, kept + rejected))
        after_cut = self.run(_trial(len(kept), rest)).scores[0]
        self.run(_trial(0, kept))
        uncut = self.run(_trial(len(kept), rest)).scores[0]
        return np.allclose(after_cut.logits, uncut.logits, rtol=1e-3)


def _is_fused(compiled: ov.CompiledModel) -> bool:
    """Whether the CPU plugin's attention itself writes every state; not so on other devices."""
    nodes = compiled.get_runtime_model().get_ops()
    writers = [node.input_value(0).get_node() for node in nodes if _kind(node) == "MemoryOutput"]
    return {_kind(node) for node in writers} == {"ScaledDotProductAttention"}


def _kind(node: ov.Node) -> str:
    return str(node.get_rt_info()["layerType"].astype(str))


class _Length:
    """An input of which only the length counts: its memory is never read nor written."""

    def __init__(self, request: ov.InferRequest, index: int, port: ov.ConstOutput) -> None:
        self._request = request
        self._index = index
        shape = port.partial_shape
        self._heads, self._size = shape[1].get_length(), shape[3].get_length()
        self._dtype = port.element_type.to_dtype()

    def write(self, length: int) -> None:
        """Let the next pass find ``length`` rows."""
        rows = np.empty((1, self._heads, length, self._size), self._dtype)
        self._request.set_input_tensor(self._index, ov.Tensor(rows, shared_memory=length > 0))


def _trial(past_len: int, tokens: list[int]) -> Slice:
    end = past_len + len(tokens)
    return Slice(
        seq=0,
        kind=SliceKind.PREFILL,
        past_len=past_len,
        tokens=np.array(tokens, np.int32),
        positions=np.arange(past_len, end, dtype=np.int64)[None],
        scored=np.array([len(tokens) - 1], np.int32),
    )


_FED = frozenset(
    {
        "input_ids",
        "position_ids",
        "attention_mask",
        "beam_idx",
        SCORED_ROWS,
        score_heads.INVERSE_TEMPERATURE,
    }
)

_BYTES = {CachePrecision.F32: 4, CachePrecision.F16: 2, CachePrecision.U8: 1}
_BYTES_OF_SCALES = 8
"""Scale and zero point of each head's row in a u8 state."""


def _bytes_per_row(model: ov.Model, precision: CachePrecision) -> int:
    shapes = [
        node.get_output_partial_shape(0)
        for node in model.get_ops()
        if node.get_type_name() == "ReadValue"
    ]
    scales = _BYTES_OF_SCALES if precision is CachePrecision.U8 else 0
    return sum(
        shape[1].get_length() * (shape[3].get_length() * _BYTES[precision] + scales)
        for shape in shapes
    )
