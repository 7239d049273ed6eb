"""`paceline generate` by its contract."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from engine.config import BackendKind, CachePrecision, Speculation
from tests.engine.cli.conftest import Terminal

METRICS = {
    "ttft_ms",
    "tpot_ms",
    "throughput_tok_s",
    "num_generated_tokens",
    "num_target_steps",
    "num_draft_tokens",
    "num_verified_tokens",
    "num_accepted_tokens",
    "acceptance_rate",
    "tokens_per_step",
    "acceptance_by_position",
    "draft_ms",
    "verify_ms",
    "overhead_ms",
}
STEP = {
    "t_ms",
    "drafter",
    "draft",
    "verified",
    "chosen_length",
    "num_reached",
    "reason",
    "emitted",
    "draft_ms",
    "verify_ms",
    "overhead_ms",
}


def test_text_goes_to_standard_output_and_figures_beside_it(terminal: Terminal):
    outcome = terminal.generate("--prompt", "Hi")
    assert (outcome.code, outcome.out) == (0, "Hello, world\n")
    assert outcome.err.splitlines()[-1] == "13 tokens · 267 tok/s · first 0.01 s · 2.6 tokens/step"
    assert terminal.engine.closed.is_set()


def test_json_is_one_object_with_the_promised_keys(terminal: Terminal):
    outcome = terminal.generate("--prompt", "Hi", "--json")
    answer = json.loads(outcome.out)
    assert outcome.out.count("\n") == 1
    assert answer["text"] == "Hello, world"
    assert answer["token_ids"] == [*b"Hello, world", 256]
    assert answer["finish_reason"] == "stop"
    assert answer["prompt_tokens"] == len("<user>Hi</user><assistant>")
    assert answer["plan"].keys() >= {"backend", "device", "drafter", "reasons"}
    assert answer["metrics"].keys() >= METRICS
    assert "steps" not in answer


def test_steps_are_added_on_request(terminal: Terminal):
    answer = json.loads(terminal.generate("--prompt", "Hi", "--json", "--steps").out)
    assert all(step.keys() == STEP for step in answer["steps"])
    tokens = [token["token"] for step in answer["steps"] for token in step["emitted"]]
    assert tokens == answer["token_ids"]


def test_several_answers_are_all_told(terminal: Terminal):
    asked = ("--prompt", "Hi", "--num-return-sequences", "2", "--do-sample")
    answer = json.loads(terminal.generate(*asked, "--json").out)
    assert [choice["text"] for choice in answer["choices"]] == ["Hello, world"] * 2
    assert terminal.generate(*asked).out == "[1] Hello, world\n[2] Hello, world\n"


def _prompt(terminal: Terminal) -> str:
    return terminal.engine.tokenizer.decode(list(terminal.engine.requests[-1].prompt_ids))


def test_raw_skips_the_template(terminal: Terminal):
    terminal.generate("--prompt", "Hi", "--raw")
    assert _prompt(terminal) == "Hi"


def test_a_prompt_file_is_read_as_utf8(terminal: Terminal, tmp_path: Path):
    file = tmp_path / "prompt.txt"
    file.write_bytes("\ufeffÜber\n".encode())
    terminal.generate("--prompt-file", str(file), "--raw")
    assert _prompt(terminal) == "Über\n"


def test_a_prompt_can_come_from_standard_input(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("é".encode())))
    terminal.generate("--prompt-file", "-", "--raw")
    assert _prompt(terminal) == "é"


def test_a_messages_file_is_a_conversation(terminal: Terminal, tmp_path: Path):
    file = tmp_path / "messages.json"
    file.write_text(
        '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]'
    )
    terminal.generate("--messages-file", str(file))
    assert _prompt(terminal) == "<system>Be brief.</system><user>Hi</user><assistant>"


def test_options_reach_the_request(terminal: Terminal):
    terminal.generate(
        *("--prompt", "Hi", "--max-new-tokens", "5", "--temperature", "0.8", "--rng-seed", "7"),
        *("--stop-strings", "a", "b", "--stop-strings", "c", "--stop-token-ids", "1", "2"),
        *("--include-stop-str-in-output", "--ignore-eos", "false", "--num-assistant-tokens", "3"),
    )
    config = terminal.engine.requests[-1].config
    assert (config.max_new_tokens, config.temperature, config.rng_seed) == (5, 0.8, 7)
    assert config.do_sample
    assert config.stop_strings == ("a", "b", "c")
    assert config.stop_token_ids >= {1, 2}
    assert (config.include_stop_str_in_output, config.ignore_eos) == (True, False)
    assert config.num_assistant_tokens == 3


def test_options_reach_the_engine(terminal: Terminal, tmp_path: Path):
    terminal.generate(
        *("--prompt", "Hi", "--drafter", "none", "--backend", "paged", "--device", "CPU"),
        *("--cache-precision", "f32", "--inference-precision", "f32", "--speculation", "off"),
        *("--max-num-batched-tokens", "64", "--cache-size-gib", "0.5"),
    )
    [config] = terminal.configs
    assert config.model == terminal.model
    assert (config.drafter, config.backend, config.device) == ("none", BackendKind.PAGED, "CPU")
    assert config.cache_precision is CachePrecision.F32
    assert config.inference_precision == "f32"
    assert config.speculation is Speculation.OFF
    assert config.scheduler.max_num_batched_tokens == 64
    assert config.scheduler.cache_size_gib == 0.5
    assert config.compile_cache == tmp_path / "home" / "compile-cache"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--prompt"),
        (("--prompt", ""), "empty"),
        (("--prompt", "x" * 3000), "too long"),
        (("--prompt", "a", "--prompt-file", "b"), "--prompt"),
        (("--prompt-file", "/no/such/file"), "/no/such/file"),
        (("--prompt-file", "/"), "/"),
        (("--prompt", "\udcff"), "Unicode"),
        (("--prompt", "a", "--num-assistant-tokens", "-1"), "num_assistant_tokens"),
        (("--prompt", "a", "--num-assistant-tokens", "101"), "num_assistant_tokens"),
        (("--prompt", "a", "--num-assistant-tokens", "3x"), "--num-assistant-tokens"),
        (("--prompt", "a", "--num-assistant-tokens", "1.5"), "--num-assistant-tokens"),
        (("--prompt", "a", "--num-assistant-tokens"), "--num-assistant-tokens"),
        (("--prompt", "a", "--temperature", "nan"), "temperature"),
        (("--prompt", "a", "--temperature", "hot"), "--temperature"),
        (("--prompt", "a", "--do-sample", "maybe"), "--do-sample"),
        (("--prompt", "a", "--num-beams", "2"), "num_beams"),
        (
            (
                *("--prompt", "a", "--num-assistant-tokens", "3"),
                *("--assistant-confidence-threshold", "0.5"),
            ),
            "exclude each other",
        ),
        (("--prompt", "a", "--raw", "--apply-chat-template", "true"), "--raw"),
        (("--prompt", "a", "--drafter", "magic"), "magic"),
        (("--prompt", "a", "--drafter", ""), "drafter"),
        (("--prompt", "a", "--backend", "quantum"), "quantum"),
        (("--prompt", "a", "--sampled-rule", "greedy"), "greedy"),
        (("--prompt", "a", "--speculation", "maybe"), "maybe"),
        (("--prompt", "a", "--cache-size-gib", "0"), "cache_size_gib"),
        (("--prompt", "a", "--image", "cat.png"), "--image"),
        (("--prompt", "a", "--steps"), "--steps"),
        (("--prompt", "a", "--frobnicate"), "--frobnicate"),
        (("--prompt", "a", "--stop-strings", ""), "stop_strings"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    terminal: Terminal, arguments: tuple[str, ...], words: str
):
    outcome = terminal.generate(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    [line] = outcome.err.splitlines()
    assert line.startswith("paceline: ")
    assert words in line


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"{}", "list"),
        (b"[]", "no message"),
        (b'[{"role": "user"}]', "[0].content"),
        (b'[{"role": "robot", "content": "x"}]', "[0].role"),
        (b'[{"role": "user", "content": "\\ud83d"}]', "not valid Unicode"),
        (b'[{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]', "image_url"),
        (b"\xff", "JSON"),
    ],
)
def test_a_wrong_messages_file_is_one_line(
    terminal: Terminal, tmp_path: Path, content: bytes, words: str
):
    file = tmp_path / "messages.json"
    file.write_bytes(content)
    outcome = terminal.generate("--messages-file", str(file))
    assert outcome.code == 2
    [line] = outcome.err.splitlines()
    assert words in line


def test_a_prompt_file_that_is_not_utf8_is_one_line(terminal: Terminal, tmp_path: Path):
    file = tmp_path / "latin.txt"
    file.write_bytes("é".encode("latin-1"))
    outcome = terminal.generate("--prompt-file", str(file))
    assert (outcome.code, outcome.out) == (2, "")
    assert "UTF-8" in outcome.err


def test_a_missing_model_folder_is_one_line(terminal: Terminal):
    outcome = terminal.run("generate", "--prompt", "x", "--model", "/no/such/model")
    assert outcome.code == 2
    [line] = outcome.err.splitlines()
    assert "/no/such/model" in line


def test_a_folder_without_tokenizer_is_one_line(terminal: Terminal):
    (terminal.model / "openvino_tokenizer.xml").unlink()
    outcome = terminal.generate("--prompt", "x")
    assert outcome.code == 2
    [line] = outcome.err.splitlines()
    assert "openvino_tokenizer.xml" in line


def test_a_failed_step_is_exit_code_1(terminal: Terminal):
    terminal.script.fail_after_steps = 1
    outcome = terminal.generate("--prompt", "x")
    assert outcome.code == 1
    assert outcome.err.splitlines()[-1].startswith("paceline: A step failed")
    assert terminal.engine.closed.is_set()


def test_ctrl_c_is_exit_code_130_in_silence(terminal: Terminal):
    def interrupt(text: str, *, add_special_tokens: bool) -> list[int]:
        raise KeyboardInterrupt

    terminal.engine.tokenizer.encode = interrupt  # type: ignore[method-assign,assignment]
    outcome = terminal.generate("--prompt", "x")
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "")
    assert terminal.engine.closed.is_set()
