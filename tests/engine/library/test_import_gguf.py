"""A GGUF file becomes a model folder that works, or leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections import namedtuple
from pathlib import Path

import openvino_genai
import pytest

from engine.errors import ModelNotFoundError, ModelUnusableError
from engine.library import import_gguf as module
from engine.library.folder import read_model_folder
from engine.library.import_gguf import import_gguf
from tests.engine.library.tiny_gguf import CONTEXT, write_tiny_gguf

ROOT = Path(__file__).parents[3]


def silent(_: str) -> None:
    """For tests that do not look at the progress."""


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf")


def test_an_imported_model_describes_itself_and_generates(tmp_path: Path, source: Path) -> None:
    said: list[str] = []
    folder = import_gguf(source, tmp_path / "models" / "Tiny", said.append)
    info = read_model_folder(folder)
    assert (info.name, info.architecture) == ("Tiny", "LlamaForCausalLM")
    assert (info.context_length, info.vocab_size, info.num_layers) == (CONTEXT, 259, 1)
    assert info.stop_token_ids == {0, 1}
    assert info.has_chat_template
    pipeline = openvino_genai.LLMPipeline(folder, "CPU")
    tokenizer = pipeline.get_tokenizer()
    assert tokenizer.decode(tokenizer.encode("he said é").input_ids) == ["he said é"]
    answer = pipeline.generate(tokenizer.encode("he"), max_new_tokens=3, ignore_eos=True)
    assert len(answer.tokens[0]) == 3
    assert said == ["Importing tiny.gguf through OpenVINO GenAI"]
    assert visible(tmp_path / "models") == ["Tiny"]
    assert not list(folder.glob("*.gguf"))
    assert source.is_file()


def test_a_killed_import_leaves_no_model_and_does_not_block_the_next(
    tmp_path: Path, source: Path
) -> None:
    destination = tmp_path / "models" / "Tiny"
    script = f"""
        from pathlib import Path
        from engine.library.import_gguf import import_gguf
        say = lambda said: print(said, flush=True)
        import_gguf(Path({str(source)!r}), Path({str(destination)!r}), say)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline().startswith("Importing")
        child.kill()
    assert not destination.exists()
    assert len(visible(destination.parent)) == 1  # half made, under a hidden name
    import_gguf(source, destination, silent)
    assert visible(destination.parent) == ["Tiny"]


def test_an_unknown_architecture_is_refused_in_the_importers_words(tmp_path: Path) -> None:
    source = write_tiny_gguf(tmp_path / "odd.gguf", architecture="mamba")
    with pytest.raises(ModelUnusableError, match="Unsupported model architecture 'mamba'"):
        import_gguf(source, tmp_path / "models" / "odd", silent)
    assert visible(tmp_path / "models") == []


def test_what_is_no_gguf_leaves_nothing_behind(tmp_path: Path) -> None:
    source = tmp_path / "text.gguf"
    source.write_text("no model", encoding="utf-8")
    with pytest.raises(ModelUnusableError, match=r"text\.gguf"):
        import_gguf(source, tmp_path / "models" / "text", silent)
    assert visible(tmp_path / "models") == []


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"none\.gguf"):
        import_gguf(tmp_path / "none.gguf", tmp_path / "models" / "none", silent)


def test_a_full_disk_is_noticed_before_the_work(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", ["total", "used", "free"])
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: usage(10, 9, 1))
    with pytest.raises(ModelUnusableError, match="make room"):
        import_gguf(source, tmp_path / "models" / "Tiny", silent)
    assert visible(tmp_path / "models") == []


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path, source: Path) -> None:
    (tmp_path / "models").write_text("a file in the way", encoding="utf-8")
    with pytest.raises(ModelUnusableError, match="cannot be imported"):
        import_gguf(source, tmp_path / "models" / "Tiny", silent)
