"""Who can draft for whom: the same tokens, or a head of the right size, and the reason why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import ModelUnusableError, PlanRefusedError
from engine.library.folder import read_model_folder
from engine.library.pairing import CandidateKind, pair_candidates, shared_vocabulary
from tests.engine.library.tiny_folders import head_folder, model_folder

PIECES = [b"<s>", b"a", b"b", b"c", b"\xc3"]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = model_folder(tmp_path / "big", PIECES, weight_bytes=1000)
    config = {"hidden_size": 64, "vocab_size": 8}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def shared(target: Path, draft: Path) -> int:
    return shared_vocabulary(read_model_folder(target), read_model_folder(draft))


def test_a_model_shares_its_vocabulary_with_itself(smollm2: Path) -> None:
    assert shared(smollm2, smollm2) == 49_152


@pytest.mark.parametrize("padding", [[], [b"", b"", b""], [b"[PAD5]"]])
def test_padding_is_no_difference_and_does_not_count(
    tmp_path: Path, target: Path, padding: list[bytes]
) -> None:
    draft = model_folder(tmp_path / "small", [*PIECES, *padding])
    assert shared(target, draft) == shared(draft, target) == 5


def test_a_refusal_names_both_models_and_the_first_token_that_differs(
    tmp_path: Path, target: Path
) -> None:
    draft = model_folder(tmp_path / "small", [b"<s>", b"a", b"x", b"y", b"\xc3"])
    with pytest.raises(PlanRefusedError, match="big and small") as refusal:
        shared(target, draft)
    assert "token 2 is 'b' in the first and 'x' in the second" in refusal.value.message
    assert refusal.value.param == "drafter"


def test_a_token_that_one_model_lacks_is_a_difference(tmp_path: Path, target: Path) -> None:
    draft = model_folder(tmp_path / "small", PIECES[:-1])
    with pytest.raises(PlanRefusedError, match=r"token 4 is b'\\xc3' in the first and missing in"):
        shared(target, draft)


def test_a_folder_without_a_vocabulary_cannot_be_paired(tmp_path: Path, target: Path) -> None:
    draft = model_folder(tmp_path / "small", PIECES)
    (draft / "openvino_detokenizer.xml").write_text("<net />", encoding="utf-8")
    with pytest.raises(ModelUnusableError, match="has no vocabulary"):
        shared(target, draft)


def test_candidates_are_listed_with_kind_verdict_and_reason(tmp_path: Path, target: Path) -> None:
    root = tmp_path / "models"
    model_folder(root / "a-small", PIECES, weight_bytes=150)
    head_folder(root / "owner" / "b-head", hidden_size=64, vocab_size=8)
    head_folder(root / "owner" / "c-head", hidden_size=32, vocab_size=8)
    model_folder(root / "d-other", [b"<s>", b"z"])
    model_folder(root / "e-twin", PIECES, weight_bytes=1000)
    (model_folder(root / "f-torn", PIECES) / "openvino_tokenizer.xml").unlink()
    (root / "g-nothing").mkdir()

    found = pair_candidates(target, [root])

    assert [(each.folder.name, each.kind, each.compatible) for each in found] == [
        ("a-small", CandidateKind.MODEL, True),
        ("d-other", CandidateKind.MODEL, False),
        ("e-twin", CandidateKind.MODEL, True),
        ("f-torn", CandidateKind.MODEL, False),
        ("b-head", CandidateKind.EAGLE3, True),
        ("c-head", CandidateKind.EAGLE3, False),
    ]
    reasons = [each.reason for each in found]
    assert reasons[0] == "The same 5 tokens, and 15% of the weights."
    assert "token 1 is 'a' in the first and 'z' in the second" in reasons[1]
    assert "hardly draft faster" in reasons[2]
    assert "openvino_tokenizer.xml" in reasons[3]
    assert "hidden_size is 32, not 64" in reasons[5]


def test_the_target_is_no_candidate_and_no_folder_is_listed_twice(
    tmp_path: Path, target: Path
) -> None:
    small = model_folder(tmp_path / "small", PIECES)
    found = pair_candidates(target, [tmp_path, small, tmp_path / "not there"])
    assert [each.folder for each in found] == [small]
