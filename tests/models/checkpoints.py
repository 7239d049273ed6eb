"""Saving and resuming a training: weights, momenta and the next step, replaced as one file."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch

from tests.models.optimizer import Descent

SECONDS_BETWEEN_SAVES = 120.0


@dataclass(slots=True)
class Checkpoint:
    """The state of one training in ``path``. A run that ends anywhere loses two minutes."""

    path: Path
    model: torch.nn.Module
    descent: Descent
    _saved_at: float = field(default_factory=time.monotonic)

    def resume(self) -> int:
        """Load what was saved; the step to go on with, 0 for a fresh start."""
        if not self.path.exists():
            return 0
        state = torch.load(self.path)
        self.model.load_state_dict(state["model"])
        self.descent.load(state["descent"])
        return int(state["next_step"])

    def save_now_and_then(self, next_step: int) -> None:
        """Save if the last save is long enough ago."""
        if time.monotonic() - self._saved_at > SECONDS_BETWEEN_SAVES:
            self.save(next_step)

    def save(self, next_step: int) -> None:
        """Write beside and rename, so that a killed process leaves a whole file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".part")
        state = {
            "model": self.model.state_dict(),
            "descent": self.descent.state(),
            "next_step": next_step,
        }
        torch.save(state, beside)
        os.replace(beside, self.path)
        self._saved_at = time.monotonic()
