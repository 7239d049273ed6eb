"""What is trained: architectures, lengths and rates of the test models, as data.

The sizes are the smallest at which the engine's paths are real (OpenVINO GenAI taps targets of
ten layers or more) and training takes less than an hour on two cores.
"""

from __future__ import annotations

from dataclasses import dataclass

from transformers import Qwen3Config

from tests.models.vocabulary import END_OF_TEXT_ID, IM_END_ID, NUM_TOKENS, Vocabulary

CONTEXT_LENGTH = 1_024
TOKENS_PER_STEP = 1_024
SHORT_WINDOW = 256
"""Length of the windows of the first steps; the last steps see the whole context."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Steps and rates: warm up, hold, then decay to zero over the last part of the steps."""

    num_steps: int
    warmup_steps: int = 30
    decaying_part: float = 0.3
    long_part: float = 0.25
    """The last part of the steps, which trains on windows of the whole context."""
    full_rate: float = 1.0
    """Rate between warming up and decaying, as a part of the optimizer's own."""

    def rate(self, step: int) -> float:
        """Part of the optimizer's learning rate at a step, counted from 0."""
        left = (self.num_steps - step) / (self.decaying_part * self.num_steps)
        return self.full_rate * min(1.0, (step + 1) / self.warmup_steps, left)

    def window(self, step: int) -> int:
        """Tokens of each window of a step, counted from 0."""
        is_long = step >= (1 - self.long_part) * self.num_steps
        return CONTEXT_LENGTH if is_long else SHORT_WINDOW


@dataclass(frozen=True, slots=True)
class LanguageModelRecipe:
    """A causal language model. With ``teacher`` it learns that model's distributions."""

    name: str
    vocabulary: Vocabulary
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    schedule: Schedule
    teacher: str | None = None
    head_size: int = 32
    seed: int = 0
    weight_format: str = "fp16"

    def config(self) -> Qwen3Config:
        """The architecture as transformers takes it."""
        return Qwen3Config(
            vocab_size=NUM_TOKENS,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_hidden_layers=self.num_layers,
            num_attention_heads=self.num_heads,
            num_key_value_heads=self.num_kv_heads,
            head_dim=self.head_size,
            max_position_embeddings=CONTEXT_LENGTH,
            tie_word_embeddings=True,
            eos_token_id=IM_END_ID,
            pad_token_id=END_OF_TEXT_ID,
            bos_token_id=None,
        )


@dataclass(frozen=True, slots=True)
class HeadRecipe:
    """An EAGLE3 head on a frozen target of this folder."""

    name: str
    target: str
    num_draft_tokens: int
    """Size of the draft vocabulary: the target's most frequent choices."""
    unroll_steps: int
    """Training-time test: how many of its own steps the head is trained to survive."""
    schedule: Schedule
    seed: int = 0
    weight_format: str = "fp16"


TARGET = LanguageModelRecipe(
    name="target",
    vocabulary=Vocabulary.CODE,
    hidden_size=128,
    intermediate_size=384,
    num_layers=12,
    num_heads=4,
    num_kv_heads=2,
    schedule=Schedule(num_steps=900),
)
DRAFT = LanguageModelRecipe(
    name="draft",
    vocabulary=Vocabulary.CODE,
    hidden_size=96,
    intermediate_size=256,
    num_layers=2,
    num_heads=3,
    num_kv_heads=1,
    schedule=Schedule(num_steps=800),
    teacher=TARGET.name,
    seed=1,
)
OTHER = LanguageModelRecipe(
    name="other",
    vocabulary=Vocabulary.PROSE,
    hidden_size=64,
    intermediate_size=160,
    num_layers=2,
    num_heads=2,
    num_kv_heads=1,
    schedule=Schedule(num_steps=150),
    seed=2,
    weight_format="int8",
)
EAGLE3 = HeadRecipe(
    name="eagle3",
    target=TARGET.name,
    num_draft_tokens=1_024,
    unroll_steps=4,
    schedule=Schedule(num_steps=800),
    seed=3,
)
