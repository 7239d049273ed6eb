"""Model folders with tokenizers of the kinds that are about, converted as users convert them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest
from openvino_tokenizers import convert_tokenizer
from tokenizers import Tokenizer as HubTokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from engine.tokens import Tokenizer

MAX_LENGTH = 12
"""What the made tokenizers were told to truncate to."""

_CORPUS = ["The quick brown fox, isn't it? I've said 'so'. Grüße é 😀 汉字"] * 3


@pytest.fixture(scope="session")
def tokenizer(smollm2: Path) -> Tokenizer:
    """That of the real small model."""
    return Tokenizer.load(smollm2)


@pytest.fixture(scope="session")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As GPT-2, Llama 3 and Qwen have it, with <s> before and </s> after every text."""
    return _convert(_train_byte_level(), tmp_path_factory.mktemp("byte_level"))


@pytest.fixture(scope="session")
def cleaned_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, whose decoder takes away spaces before punctuation."""
    folder = tmp_path_factory.mktemp("cleaned_up")
    return _convert(_train_byte_level(), folder, clean_up_tokenization_spaces=True)


@pytest.fixture(scope="session")
def sentencepiece(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As Llama 2 and Gemma have it: a mark for spaces, bytes for unknown letters, <s> in front."""
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    names += ["▁", *"abcdefghijklmnopqrstuvwxyz.,'", "▁t", "th", "▁th", "▁the"]
    made = HubTokenizer(
        models.BPE(
            vocab={name: index for index, name in enumerate(names)},
            merges=[("▁", "t"), ("t", "h"), ("▁t", "h"), ("▁th", "e")],
            byte_fallback=True,
            unk_token="<unk>",
        )
    )
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return _convert(made, tmp_path_factory.mktemp("sentencepiece"))


@pytest.fixture(scope="session", params=["byte_level", "cleaned_up", "sentencepiece", "smollm2"])
def any_folder(request: pytest.FixtureRequest) -> Path:
    """Each of the folders in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def run_detokenizer() -> Callable[[Path], Callable[[list[int]], str]]:
    """The folder's own graph, untouched: what every decoder must agree with."""

    @cache
    def load(folder: Path) -> Callable[[list[int]], str]:
        compiled = openvino.Core().compile_model(folder / "openvino_detokenizer.xml", "CPU")
        request = compiled.create_infer_request()

        def decode(ids: list[int]) -> str:
            request.set_input_tensor(openvino.Tensor(_as_row(ids)))
            request.infer()
            return str(request.get_output_tensor().str_data[0])

        return decode

    return load


def _as_row(ids: list[int]) -> Any:
    return np.array(ids, np.int64).reshape(1, -1)


def _train_byte_level() -> HubTokenizer:
    made = HubTokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(_CORPUS, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return made


def _convert(made: HubTokenizer, folder: Path, **options: Any) -> Path:
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", model_max_length=MAX_LENGTH
    )
    graphs = convert_tokenizer(fast, with_detokenizer=True, **options)
    for graph, name in zip(graphs, ("openvino_tokenizer", "openvino_detokenizer"), strict=True):
        openvino.save_model(graph, folder / f"{name}.xml")
    return folder
