"""Text to ids and back with real graphs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.errors import InvalidRequestError, ModelUnusableError
from engine.tokens import Tokenizer, render_chat

from .conftest import MAX_LENGTH

TEXTS = ["", "Hello world", "  two  spaces \n\n\tand tabs ", "Grüße \x00 é 😀 汉字", "x" * 300]


@pytest.mark.parametrize("text", TEXTS)
def test_decoding_gives_back_the_text(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_special_tokens_in_the_text_are_encoded_as_such(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("a<|im_end|>b")
    assert tokenizer.eos_token_id in ids
    assert tokenizer.decode(ids) == "ab"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "a<|im_end|>b"


def test_knows_the_real_models_special_tokens(tokenizer: Tokenizer) -> None:
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
    assert tokenizer.special_ids == set(range(17))
    assert tokenizer.vocab_size == 49152
    assert tokenizer.special.texts["eos_token"] == "<|im_end|>"
    assert tokenizer.token_text(2) == "<|im_end|>"


def test_a_rendered_chat_is_encoded_with_its_special_tokens(tokenizer: Tokenizer) -> None:
    text = render_chat(tokenizer, [{"role": "user", "content": "Hi"}])
    ids = tokenizer.encode(text)
    assert ids[0] == tokenizer.bos_token_id
    assert ids.count(2) == 2  # the template's own system message, and the user's
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_adds_the_tokenizers_own_special_tokens_only_when_asked(byte_level: Path) -> None:
    tokenizer = Tokenizer.load(byte_level)
    plain = tokenizer.encode("The fox")
    assert tokenizer.encode("The fox", add_special_tokens=True) == [0, *plain, 1]
    assert tokenizer.special_ids.isdisjoint(plain)
    assert tokenizer.encode("") == []


def test_keeps_special_tokens_that_the_text_itself_begins_and_ends_with(byte_level: Path) -> None:
    tokenizer = Tokenizer.load(byte_level)
    ids = tokenizer.encode("<s>The fox</s>")
    assert (ids[0], ids[-1], len(ids)) == (0, 1, len(tokenizer.encode("The fox")) + 2)


def test_both_settings_for_special_tokens_work_in_a_graph(sentencepiece: Path) -> None:
    tokenizer = Tokenizer.load(sentencepiece)
    ids = tokenizer.encode("the fox</s>", add_special_tokens=True)
    assert ids[0] == tokenizer.bos_token_id
    assert tokenizer.decode(ids) == "the fox"
    assert "</s>" in tokenizer.decode(ids, skip_special_tokens=False)


def test_never_truncates(any_folder: Path) -> None:
    tokenizer = Tokenizer.load(any_folder)
    text = "the fox " * 5000  # longer than MAX_LENGTH, and than the 8192 of the real graph
    assert len(tokenizer.encode(text)) > max(MAX_LENGTH, 8192)


def test_refuses_half_a_surrogate_pair(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidRequestError, match="surrogate"):
        tokenizer.encode("a\ud800b")


def test_ids_outside_the_vocabulary_have_no_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([60_000, -1]) == ""
    assert tokenizer.token_bytes(60_000) == b""


def test_threads_do_not_disturb_each_other(any_folder: Path) -> None:
    tokenizer = Tokenizer.load(any_folder)
    texts = [f"the {'fox ' * (n % 7)}jumps" for n in range(200)]

    def there_and_back(text: str) -> str:
        return tokenizer.decode(tokenizer.encode(text))

    alone = [there_and_back(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(there_and_back, texts)) == alone


@pytest.mark.parametrize("name", ["openvino_tokenizer.xml", "openvino_detokenizer.xml"])
def test_a_missing_graph_is_named_with_its_remedy(
    byte_level: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(byte_level, folder)
    (folder / name).unlink()
    with pytest.raises(ModelUnusableError, match=f"{name}.*convert_tokenizer") as caught:
        Tokenizer.load(folder)
    assert caught.value.param == "model"


def test_a_broken_graph_is_named(byte_level: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(byte_level, folder)
    (folder / "openvino_tokenizer.xml").write_text("<net")
    with pytest.raises(ModelUnusableError, match="openvino_tokenizer.xml cannot be read"):
        Tokenizer.load(folder)


def test_special_texts_of_the_settings_file_go_before_the_vocabulary(
    byte_level: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(byte_level, folder)
    settings = {"bos_token": {"content": "[BOS]"}, "unk_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    texts = Tokenizer.load(folder).special.texts
    assert texts == {"bos_token": "[BOS]", "eos_token": "</s>", "unk_token": "[UNK]"}


def test_needs_neither_transformers_nor_torch_and_leaves_the_process_cleanly(
    smollm2: Path,
) -> None:
    code = (
        "import sys; from pathlib import Path; from engine.tokens import *\n"
        "t = Tokenizer.load(Path(sys.argv[1]))\n"
        "render_chat(t, [{'role': 'user', 'content': t.decode(t.encode('Hi'))}])\n"
        "print([name for name in ('transformers', 'torch') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, smollm2], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")
