"""How to compile a model and how much cache to give it: the same wishes for every backend."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.config import CachePrecision
from engine.errors import CacheTooSmallError


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """What a backend is told beside the model itself."""

    device: str
    cache_precision: CachePrecision
    cache_bytes: int
    max_sequences: int
    inference_precision: str | None = None
    compile_cache: Path | None = None
    num_blocks: int | None = None
    """Overrides ``cache_bytes``."""
    taps: tuple[int, ...] = ()
    """Decoder layers whose output is returned for every row, in this order (`Output.features`)."""

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

    def count_blocks(self, bytes_per_block: int) -> int:
        """Blocks that the cache gets.

        Raises:
            CacheTooSmallError: there is not room for a single one.
        """
        num_blocks = self.num_blocks or self.cache_bytes // bytes_per_block
        if num_blocks < 1:
            raise CacheTooSmallError(
                f"A cache of {self.cache_bytes} bytes holds no block of this model "
                f"({bytes_per_block} bytes); set a larger cache (cache_size_gib)."
            )
        return num_blocks
