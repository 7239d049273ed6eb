"""The paged backend: many sequences in one forward pass over a cache of blocks.

Rejected rows cost nothing here: the length of a sequence does not advance over them, and the next
forward pass writes over their cache rows. Only the accepted path of a *tree* has to be moved, row
by row, to where a chain would have left it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import openvino as ov

from engine.backends.base import Backend, Batch, Capabilities, Output
from engine.backends.binding import BoundModel, require_known_inputs
from engine.backends.packing import pack
from engine.backends.settings import BackendSettings
from engine.config import CachePrecision
from engine.graph import score_heads
from engine.graph.paging import PAGING_INPUTS, to_paged
from engine.graph.projection import SCORED_ROWS, score_only_wanted_rows
from engine.graph.taps import add_taps
from engine.kv import BlockPool
from engine.values import IntArray, SeqId, SliceKind

_CACHE_PREFIXES = ("key_cache.", "value_cache.")


class PagedBackend(Backend):
    """Runs a stateful IR through OpenVINO's paged attention."""

    def __init__(self, core: ov.Core, model: ov.Model, settings: BackendSettings) -> None:
        add_taps(model, settings.taps)
        to_paged(model)
        score_only_wanted_rows(model)
        score_heads.add_score_heads(model)
        require_known_inputs(model, _FED, _CACHE_PREFIXES)
        compiled = core.compile_model(model, settings.device, settings.properties())
        self._model = BoundModel(compiled)
        self._caches = _CacheTensors(compiled, self._model.request)
        num_blocks = settings.count_blocks(self._caches.bytes_per_block)
        self._caches.allocate(num_blocks)
        self._pool = BlockPool(num_blocks, self._caches.block_size)
        self._lengths: dict[SeqId, int] = {}
        self._capabilities = Capabilities(
            max_sequences=settings.max_sequences,
            # A u8 block holds one scale for all its keys, so that a row cannot move between blocks.
            trees=settings.cache_precision is not CachePrecision.U8,
            features=bool(settings.taps),
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
        return self._model.vocab_size

    def forward(self, batch: Batch) -> Output:
        """Run all rows of ``batch`` at once; `Backend.forward`."""
        blocks = {part.seq: self._pool.blocks(part.seq) for part in batch.slices}
        for part in batch.slices:
            assert part.past_len == self._lengths.get(part.seq, 0), "past_len is not what was kept"
            room = len(blocks[part.seq]) * self._pool.block_size
            assert part.past_len + part.num_rows <= room, "rows without reserved room"
        output = self._model.run(pack(batch, blocks))
        for part in batch.slices:
            kept = part.num_rows if part.kind is SliceKind.PREFILL else 0
            self._lengths[part.seq] = part.past_len + kept
        return output

    def commit(self, kept: Mapping[SeqId, IntArray]) -> None:
        """`Backend.commit`; blocks that only rejected rows had reached are given back."""
        for seq, rows in kept.items():
            length = self._lengths[seq]
            for offset, row in enumerate(rows.tolist()):
                if row != offset:
                    # Sources never lie before their destination, so ascending order is safe.
                    self._caches.move_row(self._pool.blocks(seq), length + row, length + offset)
            self._lengths[seq] = length + len(rows)
            self._pool.trim(seq, self._lengths[seq])

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
        del self._model, self._caches


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


_FED = frozenset(
    {"input_ids", "position_ids", *PAGING_INPUTS, SCORED_ROWS, score_heads.INVERSE_TEMPERATURE}
)


def _block_shape(port: ov.ConstOutput) -> list[int]:
    return [port.partial_shape[axis].get_length() for axis in (1, 2, 3)]
