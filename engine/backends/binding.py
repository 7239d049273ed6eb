"""A compiled model whose inputs and outputs are bound to memory of ours. What every backend runs.

Asking the runtime for its tensors in every step took longer than all else that happens to the
scores, so tensors are made once and kept while shapes stay, as they do from step to step.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from engine.backends.base import Output
from engine.backends.packing import PackedBatch
from engine.errors import ModelUnusableError
from engine.graph import score_heads
from engine.graph.taps import FEATURES
from engine.values import FloatArray, Scores

_HEADS = (
    score_heads.TOP_IDS,
    score_heads.TOP_LOGITS,
    score_heads.LOG_SUM_EXP,
    score_heads.LOG_SUM_EXP_T,
    score_heads.ENTROPY,
)
"""In the order of the fields of `Scores`."""


class BoundModel:
    """Runs packed batches through a graph that has `score_heads`, and `taps` where wanted."""

    def __init__(self, compiled: ov.CompiledModel) -> None:
        self.compiled = compiled
        self.request = compiled.create_infer_request()
        self.vocab_size: int = compiled.output("logits").partial_shape[-1].get_length()
        self._inputs = {
            name: _InputSlot(self.request, index, port)
            for index, port in enumerate(compiled.inputs)
            for name in port.names
        }
        outputs = {
            name: index for index, port in enumerate(compiled.outputs) for name in port.names
        }
        self._logits = outputs["logits"]
        self._heads = [_RowsOutput(self.request, compiled, outputs[name]) for name in _HEADS]
        self._features = (
            _RowsOutput(self.request, compiled, outputs[FEATURES]) if FEATURES in outputs else None
        )
        self._num_passes = 0

    def run(self, packed: PackedBatch) -> Output:
        """One forward pass. Inputs that this graph does not have are not fed: not every model is
        told positions."""
        for name, array in packed.arrays.items():
            if name in self._inputs:
                self._inputs[name].write(array)
        for head in self._heads:
            head.resize(packed.score_begins[-1])
        if self._features is not None:
            self._features.resize(packed.row_begins[-1])
        self.request.start_async()
        self.request.wait()
        self._num_passes += 1
        return Output(self._read_scores(packed.score_begins), self._read_features(packed))

    def full_row(self, forward_pass: int, row: int) -> FloatArray:
        """All logits of scored row ``row`` of that pass, float32[V]; only the newest pass has
        them."""
        assert forward_pass == self._num_passes, "the scores of an earlier pass are gone"
        return np.array(self.request.get_output_tensor(self._logits).data[row, 0], np.float32)

    # Both copy: our memory is written over by the next pass.

    def _read_scores(self, begins: Sequence[int]) -> tuple[Scores, ...]:
        ids, logits, *figures = [head.array.copy() for head in self._heads]
        score_heads.order_ties(ids, logits)
        columns = [ids, logits, *(figure[:, 0] for figure in figures)]
        return tuple(
            Scores(
                *[column[begin:end] for column in columns],
                full=_FullRows(self, self._num_passes, begin),
            )
            for begin, end in pairwise(begins)
        )

    def _read_features(self, packed: PackedBatch) -> tuple[FloatArray, ...] | None:
        if self._features is None:
            return None
        rows = self._features.array.copy()
        return tuple(rows[begin:end] for begin, end in pairwise(packed.row_begins))


@dataclass(frozen=True, slots=True)
class _FullRows:
    """`Scores.full` of one slice: its rows begin at ``begin`` among all scored rows."""

    model: BoundModel
    forward_pass: int
    begin: int

    def __call__(self, index: int) -> FloatArray:
        return self.model.full_row(self.forward_pass, self.begin + index)


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
    """One graph input."""

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


class _RowsOutput:
    """One graph output ``[rows, width]``."""

    def __init__(self, request: ov.InferRequest, compiled: ov.CompiledModel, index: int) -> None:
        port = compiled.output(index)
        self._request = request
        self._index = index
        self._width = port.partial_shape[1].get_length()
        self._tensors = _SharedTensors(port)
        self.array: NDArray[Any] = np.empty((0, self._width))
        """What the last pass wrote."""
        self._is_bound = False

    def resize(self, num_rows: int) -> None:
        """Let the next pass write that many rows."""
        if self._is_bound and len(self.array) == num_rows:
            return
        self.array, tensor = self._tensors.of((num_rows, self._width))
        self._request.set_output_tensor(self._index, tensor)
        self._is_bound = True


def require_known_inputs(
    model: ov.Model, fed: Collection[str], prefixes: tuple[str, ...] = ()
) -> None:
    """Refuse a model that wants to be fed what nobody has: inputs that are neither in ``fed`` nor
    begin with one of ``prefixes``.

    Raises:
        ModelUnusableError: naming the inputs.
    """
    names = [name for port in model.inputs for name in port.names]
    unknown = [name for name in names if name not in fed and not name.startswith(prefixes)]
    if unknown:
        raise ModelUnusableError(
            f"This model wants the inputs {', '.join(sorted(unknown))}, which are not supported "
            "yet: choose a text model.",
            param="model",
        )
