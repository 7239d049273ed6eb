"""The tokenizers of the test models: byte-level BPE with a chat template and special tokens.

Two of one size and different content: ``code`` for target and drafters, ``prose`` for the model
that no drafter fits. A comparison of sizes alone would take one for the other, as it should not.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tests.models import corpus
from tests.models.corpus import IM_END, IM_START, Split

NUM_TOKENS = 2_048
END_OF_TEXT = "<|endoftext|>"
SPECIAL_TOKENS = [END_OF_TEXT, IM_START, IM_END]
END_OF_TEXT_ID, IM_START_ID, IM_END_ID = range(len(SPECIAL_TOKENS))

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


class Vocabulary(Enum):
    """Which text the merges are learnt from."""

    CODE = "code"
    PROSE = "prose"


def train_tokenizer(vocabulary: Vocabulary) -> PreTrainedTokenizerFast:
    """Learn the merges; a few seconds. The same text gives the same tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=NUM_TOKENS,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(vocabulary), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=IM_END,
        pad_token=END_OF_TEXT,
        chat_template=CHAT_TEMPLATE,
        model_max_length=1_024,
        clean_up_tokenization_spaces=False,
    )


def _texts(vocabulary: Vocabulary) -> Iterable[str]:
    if vocabulary is Vocabulary.CODE:
        return corpus.sources(Split.TRAINING)
    return (text for _, text in corpus.reference_topics(Split.TRAINING))
