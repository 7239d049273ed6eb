"""The paged backend: many sequences in one forward pass over a cache of blocks.

Rejected rows cost nothing here: the length of a sequence does not advance over them, and the next
forward pass writes over their cache rows. Only the accepted path of a *tree* has to be moved, row
by row, to where a chain would have left it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from engine.backends.base import Backend, Batch, Capabilities, Output, Scores
from engine.backends.packing import pack
from engine.config import CachePrecision
from engine.errors import CacheTooSmallError, ModelUnusableError
from engine.graph import score_heads
from engine.graph.paging import PAGING_INPUTS, to_paged
from engine.graph.projection import SCORED_ROWS, score_only_wanted_rows
from engine.kv import BlockPool
from engine.values import FloatArray, SeqId, SliceKind, Verdict

_CACHE_PREFIXES = ("key_cache.", "value_cache.")


@dataclass(frozen=True, slots=True)
class PagedSettings:
    """How to compile the model and how much cache to give it."""

    device: str
    cache_precision: CachePrecision
    cache_bytes: int
    max_sequences: int
    inference_precision: str | None = None
    compile_cache: Path | None = None
    num_blocks: int | None = None
    """Overrides ``cache_bytes``."""

    def properties(self) -> dict[str, str]:
        """The device properties that the model is compiled with."""
        properties = {
            "PERFORMANCE_HINT": "LATENCY",
            "KV_CACHE_PRECISION": self.cache_precision.value,
        }
        if self.inference_precision is not None:
            properties["INFERENCE_PRECISION_HINT"] = self.inference_precision
        if self.compile_cache is not None:
            properties["CACHE_DIR"] = str(self.compile_cache)
        return properties


class PagedBackend(Backend):
    """Runs a stateful IR through OpenVINO's paged attention."""

    def __init__(self, core: ov.Core, model: ov.Model, settings: PagedSettings) -> None:
        to_paged(model)
        score_only_wanted_rows(model)
        score_heads.add_score_heads(model)
        _require_known_inputs(name for port in model.inputs for name in port.names)
        compiled = core.compile_model(model, settings.device, settings.properties())
        self._request = compiled.create_infer_request()
        self._inputs = {
            name: _InputSlot(self._request, index, port)
            for index, port in enumerate(compiled.inputs)
            for name in port.names
        }
        outputs = {
            name: index for index, port in enumerate(compiled.outputs) for name in port.names
        }
        self._logits = outputs["logits"]
        self._score_slots = _ScoreSlots(self._request, compiled, outputs)
        self._vocab_size = compiled.output("logits").partial_shape[-1].get_length()
        self._caches = _CacheTensors(compiled, self._request)
        num_blocks = settings.num_blocks or settings.cache_bytes // self._caches.bytes_per_block
        if num_blocks < 1:
            raise CacheTooSmallError(
                f"A cache of {settings.cache_bytes} bytes holds no block of this model "
                f"({self._caches.bytes_per_block} bytes); set a larger cache (cache_size_gib)."
            )
        self._caches.allocate(num_blocks)
        self._pool = BlockPool(num_blocks, self._caches.block_size)
        self._lengths: dict[SeqId, int] = {}
        self._num_passes = 0
        self._capabilities = Capabilities(
            max_sequences=settings.max_sequences,
            # A u8 block holds one scale for all its keys, so that a row cannot move between blocks.
            trees=settings.cache_precision is not CachePrecision.U8,
            features=False,
            embeddings=False,
        )

    @property
    def capabilities(self) -> Capabilities:
        """What this backend can do."""
        return self._capabilities

    @property
    def cache(self) -> BlockPool:
        """The blocks, counted in rows."""
        return self._pool

    @property
    def vocab_size(self) -> int:
        """Width of the scores."""
        return self._vocab_size

    def forward(self, batch: Batch) -> Output:
        """Run all rows of ``batch`` at once; `Backend.forward`."""
        blocks = {part.seq: self._pool.blocks(part.seq) for part in batch.slices}
        for part in batch.slices:
            assert part.past_len == self._lengths.get(part.seq, 0), "past_len is not what was kept"
            room = len(blocks[part.seq]) * self._pool.block_size
            assert part.past_len + part.num_rows <= room, "rows without reserved room"
        packed = pack(batch, blocks)
        for name, array in packed.arrays.items():
            if name in self._inputs:  # not every model is told positions
                self._inputs[name].write(array)
        self._score_slots.resize(packed.score_begins[-1])
        self._request.start_async()
        self._request.wait()
        self._num_passes += 1
        for part in batch.slices:
            kept = part.num_rows if part.kind is SliceKind.PREFILL else 0
            self._lengths[part.seq] = part.past_len + kept
        return Output(self._scores(packed.score_begins))

    def commit(self, verdicts: Sequence[Verdict]) -> None:
        """Keep the rows that the verdicts name; rows of prefill slices were kept by ``forward``."""
        for verdict in verdicts:
            length = self._lengths[verdict.seq]
            for offset, row in enumerate(verdict.kept_rows):
                if row != offset:
                    # Sources never lie before their destination, so ascending order is safe.
                    self._caches.move_row(
                        self._pool.blocks(verdict.seq), length + int(row), length + offset
                    )
            self._lengths[verdict.seq] = length + len(verdict.kept_rows)

    def restore(self, seq: SeqId, length: int) -> None:
        """Forget every row from position ``length`` on, and give back its blocks."""
        assert length <= self._lengths.get(seq, 0)
        self._lengths[seq] = length
        self._pool.trim(seq, length)

    def release(self, seq: SeqId) -> None:
        """Forget the sequence and give back its blocks."""
        self._lengths.pop(seq, None)
        self._pool.release(seq)

    def close(self) -> None:
        """Give back the compiled model and the cache tensors."""
        del self._request, self._inputs, self._caches, self._score_slots

    def _scores(self, begins: Sequence[int]) -> tuple[Scores, ...]:
        # Copies: our memory is written over by the next pass.
        copies = [array.copy() for array in self._score_slots.arrays]
        ids, logits, *_ = copies
        score_heads.order_ties(ids, logits)
        return tuple(
            Scores(
                *[array[begin:end] for array in copies],
                full=_FullRows(self, self._num_passes, begin),
            )
            for begin, end in zip(begins[:-1], begins[1:], strict=True)
        )

    def full_row(self, forward_pass: int, row: int) -> FloatArray:
        """All logits of scored row ``row`` of that pass, float32[V]; only the newest pass has
        them."""
        assert forward_pass == self._num_passes, "the scores of an earlier pass are gone"
        return np.array(self._request.get_output_tensor(self._logits).data[row, 0], np.float32)


@dataclass(frozen=True, slots=True)
class _FullRows:
    """`Scores.full` of one slice: its rows begin at ``begin`` among all scored rows."""

    backend: PagedBackend
    forward_pass: int
    begin: int

    def __call__(self, index: int) -> FloatArray:
        return self.backend.full_row(self.forward_pass, self.begin + index)


class _SharedTensors:
    """Tensors of one type over NumPy memory, the last few shapes kept: steps with and without a
    draft take turns."""

    _MAX_SHAPES = 32

    def __init__(self, port: ov.ConstOutput) -> None:
        self._dtype = port.element_type.to_dtype()
        self._by_shape: dict[tuple[int, ...], tuple[NDArray[Any], ov.Tensor]] = {}

    def of(self, shape: tuple[int, ...]) -> tuple[NDArray[Any], ov.Tensor]:
        """Array and tensor over the same memory; what is in it is anybody's guess."""
        found = self._by_shape.get(shape)
        if found is None:
            if len(self._by_shape) == self._MAX_SHAPES:
                self._by_shape.clear()
            array = np.empty(shape, self._dtype)
            found = self._by_shape[shape] = array, ov.Tensor(array, shared_memory=array.size > 0)
        return found


class _InputSlot:
    """One graph input. Keeps its tensor while the shape stays, as it does from step to step."""

    def __init__(self, request: ov.InferRequest, index: int, port: ov.ConstOutput) -> None:
        self._request = request
        self._index = index
        self._rank = port.partial_shape.rank.get_length()
        self._tensors = _SharedTensors(port)
        self._array: NDArray[Any] | None = None

    def write(self, values: NDArray[Any]) -> None:
        """Feed ``values`` to the next pass; one leading dimension of size one may be dropped."""
        if values.ndim == self._rank + 1:
            values = values[0]
        if self._array is None or self._array.shape != values.shape:
            self._array, tensor = self._tensors.of(values.shape)
            self._request.set_input_tensor(self._index, tensor)
        self._array[...] = values


class _ScoreSlots:
    """The outputs that `score_heads` adds, in memory of our own: asking the runtime for its tensors
    took longer than all else that happens to the scores. Kept while the number of rows stays."""

    _NAMES = (
        score_heads.TOP_IDS,
        score_heads.TOP_LOGITS,
        score_heads.LOG_SUM_EXP,
        score_heads.LOG_SUM_EXP_T,
        score_heads.ENTROPY,
    )

    def __init__(
        self, request: ov.InferRequest, compiled: ov.CompiledModel, outputs: Mapping[str, int]
    ) -> None:
        self._request = request
        ports = [(outputs[name], compiled.output(name)) for name in self._NAMES]
        self._slots = [
            (index, port.partial_shape[1].get_length(), _SharedTensors(port))
            for index, port in ports
        ]
        self.arrays: list[NDArray[Any]] = []
        """In the order of the fields of `Scores`; the figures of a row are not wrapped again."""

    def resize(self, num_rows: int) -> None:
        """Let the next pass write that many rows."""
        if self.arrays and len(self.arrays[0]) == num_rows:
            return
        self.arrays = []
        for index, width, tensors in self._slots:
            array, tensor = tensors.of((num_rows, width))
            self._request.set_output_tensor(index, tensor)
            self.arrays.append(array if width > 1 else array[:, 0])


class _CacheTensors:
    """The key and value tensors of all layers, in memory that Python and the device share (CPU).

    Layout, float16 or float32: ``[blocks, heads, block_size, head_size]``; uint8 keys have further
    rows for their scales in front (algorithm: OpenVINO's CPU plugin, measured).
    """

    def __init__(self, compiled: ov.CompiledModel, request: ov.InferRequest) -> None:
        self._request = request
        self._ports = [
            (index, port)
            for index, port in enumerate(compiled.inputs)
            if port.any_name.startswith(_CACHE_PREFIXES)
        ]
        self._tensors: list[ov.Tensor] = []
        value_port = compiled.input("value_cache.0")
        self.block_size: int = value_port.partial_shape[2].get_length()
        self.bytes_per_block: int = sum(
            int(np.prod(_block_shape(port))) * port.element_type.size for _, port in self._ports
        )

    def allocate(self, num_blocks: int) -> None:
        """Make the tensors; the system hands out their pages when they are first written."""
        for index, port in self._ports:
            tensor = ov.Tensor(port.element_type, ov.Shape([num_blocks, *_block_shape(port)]))
            self._request.set_input_tensor(index, tensor)
            self._tensors.append(tensor)

    def move_row(self, blocks: Sequence[int], source: int, destination: int) -> None:
        """Copy the cache row at position ``source`` to ``destination`` in every layer."""
        from_block, from_row = divmod(source, self.block_size)
        to_block, to_row = divmod(destination, self.block_size)
        for tensor in self._tensors:
            data = tensor.data
            data[blocks[to_block], :, to_row] = data[blocks[from_block], :, from_row]


_FED = {
    "input_ids",
    "position_ids",
    *PAGING_INPUTS,
    SCORED_ROWS,
    score_heads.INVERSE_TEMPERATURE,
}


def _require_known_inputs(names: Iterable[str]) -> None:
    """Refuse a model that wants to be fed what `pack` does not have.

    Raises:
        ModelUnusableError: naming the inputs.
    """
    unknown = [name for name in names if name not in _FED and not name.startswith(_CACHE_PREFIXES)]
    if unknown:
        raise ModelUnusableError(
            f"This model wants the inputs {', '.join(sorted(unknown))}, which are not supported "
            "yet: choose a text model.",
            param="model",
        )


def _block_shape(port: ov.ConstOutput) -> list[int]:
    return [port.partial_shape[axis].get_length() for axis in (1, 2, 3)]
