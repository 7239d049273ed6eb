"""The optimizer of all trainings: Muon for the matrices between layers, AdamW for the rest.

Muon (Jordan et al., 2024) gives each step of a matrix singular values near one, and so learns
from about half the tokens, and processor time is what is scarce here. PyTorch's own computes in
bfloat16, ten times slower than float32 on processors without it.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

MAX_GRADIENT_NORM = 1.0
MUON_RATE, ADAM_RATE = 0.02, 4e-3
MOMENTUM = 0.95
NUM_ITERATIONS = 5
COEFFICIENTS = 3.4445, -4.7750, 2.0315
"""Of the quintic whose iteration drives singular values to about one, from Muon's authors."""


class Muon(torch.optim.Optimizer):
    """Steepest descent under the spectral norm, with Nesterov momentum, for matrices alone."""

    def __init__(self, matrices: Iterable[torch.Tensor], lr: float, weight_decay: float) -> None:
        super().__init__(list(matrices), {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Move every matrix that has a gradient."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                state = self.state[matrix]
                momentum = state.setdefault("momentum", torch.zeros_like(matrix))
                momentum.lerp_(matrix.grad, 1 - MOMENTUM)
                direction = orthogonalised(matrix.grad.lerp(momentum, MOMENTUM))
                scale = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.add_(direction, alpha=-group["lr"] * scale)


def orthogonalised(matrix: torch.Tensor) -> torch.Tensor:
    """The matrix with its singular values moved to about one (Newton-Schulz iteration)."""
    a, b, c = COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.mT if is_tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(NUM_ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if is_tall else x


class Descent:
    """Both optimizers of one model as one, their rates scaled together."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        trained = {
            name: weight for name, weight in model.named_parameters() if weight.requires_grad
        }
        matrices = [
            name
            for name, weight in trained.items()
            if weight.dim() == 2 and not name.startswith(("lm_head", "model.embed_tokens"))
        ]
        others = [weight for name, weight in trained.items() if name not in matrices]
        self.parts: tuple[torch.optim.Optimizer, ...] = (
            Muon([trained[name] for name in matrices], lr=MUON_RATE, weight_decay=0.1),
            torch.optim.AdamW(others, lr=ADAM_RATE, betas=(0.9, 0.95), weight_decay=0.0),
        )

    def step(self, loss: torch.Tensor, rate: float) -> None:
        """One step down the gradient of ``loss``, at this part (0 to 1) of the full rates."""
        self.model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), MAX_GRADIENT_NORM)
        for part, full_rate in zip(self.parts, (MUON_RATE, ADAM_RATE), strict=True):
            for group in part.param_groups:
                group["lr"] = full_rate * rate
            part.step()

    def state(self) -> list[dict[str, object]]:
        """What a checkpoint keeps."""
        return [part.state_dict() for part in self.parts]

    def load(self, states: list[dict[str, object]]) -> None:
        """Take back what :meth:`state` gave."""
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)
