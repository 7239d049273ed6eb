"""What a model folder says about itself, read from its small files alone.

A model folder holds an OpenVINO model, its tokenizer and its detokenizer, and beside them the
JSON files of its checkpoint. Folders exported by optimum-intel have all of them; folders that
OpenVINO GenAI saved from a GGUF have none, and then only the tokenizer's ``rt_info`` knows the
special tokens. Nothing is compiled and no weights are read: this takes milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from xml.etree import ElementTree

from engine.errors import ModelNotFoundError, ModelUnusableError

MODEL_FILES = ("openvino_model.xml", "openvino_model.bin")
TOKENIZER_FILES = ("openvino_tokenizer.xml", "openvino_tokenizer.bin")
DETOKENIZER_FILES = ("openvino_detokenizer.xml", "openvino_detokenizer.bin")

_REMEDIES = (
    (MODEL_FILES, "export the model with `optimum-cli export openvino`, or import a GGUF file"),
    (TOKENIZER_FILES, "`convert_tokenizer CHECKPOINT --with-detokenizer -o FOLDER` writes it"),
    (DETOKENIZER_FILES, "`convert_tokenizer CHECKPOINT --with-detokenizer -o FOLDER` writes it"),
)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model as its folder describes it. None: the folder does not say."""

    name: str
    """Name of the folder; the model's id on the wire."""
    path: Path
    architecture: str | None
    """The checkpoint's class or type, such as ``LlamaForCausalLM``."""
    context_length: int | None
    """Positions that the model was made for, in tokens."""
    vocab_size: int | None
    hidden_size: int | None
    num_layers: int | None
    num_attention_heads: int | None
    num_kv_heads: int | None
    head_dim: int | None
    weight_bytes: int
    """Size of the language model's weights on disk."""
    bos_token_id: int | None
    stop_token_ids: frozenset[int]
    """Tokens that end an answer; empty if the folder names none."""
    has_chat_template: bool


def read_model_folder(path: Path) -> ModelInfo:
    """Read ``path`` without compiling anything.

    Raises ``ModelNotFoundError`` if there is no such folder and ``ModelUnusableError``, which names
    the file and how to get it, if something that the engine needs is missing or cannot be parsed.
    """
    path = path.absolute()
    _require_files(path)
    config = read_json(path / "config.json")
    text = _mapping(config.get("text_config")) or config  # vision models nest the language model
    rt_info = _read_rt_info(path / TOKENIZER_FILES[0])
    defaults = _defaults(path, config, rt_info)
    hidden_size, num_heads = _integer(text, "hidden_size"), _integer(text, "num_attention_heads")
    head_dim = _integer(text, "head_dim")
    if head_dim is None and hidden_size and num_heads:
        head_dim = hidden_size // num_heads
    return ModelInfo(
        name=path.name,
        path=path,
        architecture=_architecture(config),
        context_length=_integer(text, "max_position_embeddings"),
        vocab_size=_integer(text, "vocab_size"),
        hidden_size=hidden_size,
        num_layers=_integer(text, "num_hidden_layers"),
        num_attention_heads=num_heads,
        num_kv_heads=_integer(text, "num_key_value_heads") or num_heads,
        head_dim=head_dim,
        weight_bytes=(path / MODEL_FILES[1]).stat().st_size,
        bos_token_id=_integer(defaults, "bos_token_id"),
        stop_token_ids=frozenset(_token_ids(defaults.get("eos_token_id"))),
        has_chat_template=_has_chat_template(path, rt_info),
    )


def model_defaults(path: Path) -> Mapping[str, object]:
    """What the model wants of a request that does not say: its ``generation_config.json``.

    Special tokens that the file lacks are filled in from ``config.json`` and then from the
    tokenizer. Raises as ``read_model_folder`` does.
    """
    path = path.absolute()
    _require_files(path)
    return _defaults(
        path, read_json(path / "config.json"), _read_rt_info(path / TOKENIZER_FILES[0])
    )


def is_complete(path: Path) -> bool:
    """Whether every file that the engine needs is there (they may still be damaged)."""
    return all((path / name).is_file() for files, _ in _REMEDIES for name in files)


def _require_files(path: Path) -> None:
    if not path.exists():
        raise ModelNotFoundError(
            f"There is no model folder {path}; check the path, or leave it out for the default.",
            param="model",
        )
    if not path.is_dir():
        raise ModelUnusableError(
            f"{path} is a file; name the folder that holds openvino_model.xml.", param="model"
        )
    for files, remedy in _REMEDIES:
        for name in files:
            if not (path / name).is_file():
                raise ModelUnusableError(f"{path} has no {name}; {remedy}.", param="model")


def _defaults(
    path: Path, config: Mapping[str, object], rt_info: Mapping[str, str]
) -> dict[str, object]:
    defaults = read_json(path / "generation_config.json")
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        if defaults.get(key) is not None:
            continue
        if config.get(key) is not None:
            defaults[key] = config[key]
        elif rt_info.get(key, "").isdigit():  # GenAI writes -1 for none
            defaults[key] = int(rt_info[key])
    return defaults


def read_json(path: Path) -> dict[str, object]:
    """The object in a JSON file; empty if there is no such file.

    Raises ``ModelUnusableError`` if the file holds something else.
    """
    try:
        value: object = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ModelUnusableError(
            f"{path} cannot be read ({error}); copy or export the model again.", param="model"
        ) from error
    if not isinstance(value, dict):
        raise ModelUnusableError(
            f"{path} holds no JSON object; copy or export the model again.", param="model"
        )
    return cast("dict[str, object]", value)


def _read_rt_info(path: Path) -> dict[str, str]:
    """The notes that the tokenizer's converter left at the end of the graph's XML."""
    try:
        notes = ElementTree.parse(path).getroot().find("rt_info")
    except (OSError, ElementTree.ParseError) as error:
        raise ModelUnusableError(
            f"{path} cannot be read ({error}); copy or export the model again.", param="model"
        ) from error
    found = () if notes is None else notes
    return {note.tag: note.get("value", "") for note in found}


def _has_chat_template(path: Path, rt_info: Mapping[str, str]) -> bool:
    """The places where a template may stand, the cheapest first."""
    return (
        (path / "chat_template.jinja").is_file()
        or (path / "chat_template.json").is_file()
        or bool(rt_info.get("chat_template"))
        or bool(read_json(path / "tokenizer_config.json").get("chat_template"))
    )


def _architecture(config: Mapping[str, object]) -> str | None:
    classes = config.get("architectures")
    if isinstance(classes, list) and classes:
        return str(cast("list[object]", classes)[0])
    kind = config.get("model_type")
    return kind if isinstance(kind, str) else None


def _mapping(value: object) -> Mapping[str, object] | None:
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _integer(values: Mapping[str, object], key: str) -> int | None:
    value = values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _token_ids(value: object) -> Iterable[int]:
    """Checkpoints give one id or a list of ids."""
    several = cast("list[object]", value) if isinstance(value, list) else [value]
    return (item for item in several if isinstance(item, int) and not isinstance(item, bool))
