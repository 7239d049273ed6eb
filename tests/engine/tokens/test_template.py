"""Chat templates: where they come from, what they make of messages, what they refuse."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from engine.errors import EmptyPromptError, InvalidRequestError, ModelUnusableError
from engine.tokens import SpecialTokens, Tokenizer, render_chat
from engine.tokens.template import find_chat_template

USER = {"role": "user", "content": "Hi <b>\u00fc</b>"}
TEXTS = {"bos_token": "<s>", "eos_token": "</s>"}

LLAMA_STYLE = """{{ bos_token }}{% for message in messages %}
    {%- if message.role not in ['user', 'assistant'] %}
        {{- raise_exception('Only user and assistant roles are supported!') }}
    {%- endif %}
    {%- if loop.index0 > 9 %}{% break %}{% endif %}
    [{{ message.role | upper }}] {{ message['content'] | trim }}{{ eos_token }}
{% endfor %}
{% if add_generation_prompt %}[ASSISTANT]{% endif %}"""
TOOLS_STYLE = """{%- if tools %}{{ tools | tojson(indent=2) }}{% endif -%}
{%- set ns = namespace(n=0) -%}
{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ ns.n }}: {{ m | tojson }}
{% generation %}{{ m.content }}{% endgeneration %}
{% endfor %}{{ documents is none }}"""


@dataclass
class FakeTokenizer:
    chat_template: str | None
    special: SpecialTokens = field(
        default_factory=lambda: SpecialTokens(frozenset({0, 1}), {}, TEXTS)
    )


def render(template: str | None, messages: list[Any], **options: Any) -> str:
    return render_chat(FakeTokenizer(template), messages, **options)


@pytest.mark.parametrize("template", [LLAMA_STYLE, TOOLS_STYLE], ids=["llama", "tools"])
@pytest.mark.parametrize("prompts", [True, False])
def test_renders_as_transformers_does(template: str, prompts: bool) -> None:
    messages = [USER, {"role": "assistant", "content": "Hello"}, USER]
    tools = [{"type": "function", "function": {"name": "naïve", "parameters": {"b": 1, "a": 2}}}]
    expected, _ = render_jinja_template(
        [messages], tools, chat_template=template, add_generation_prompt=prompts, **TEXTS
    )
    rendered = render(template, messages, tools=tools, add_generation_prompt=prompts)
    assert rendered == expected[0]


def test_renders_the_real_models_template_as_transformers_does(tokenizer: Tokenizer) -> None:
    assert tokenizer.chat_template is not None
    messages = [{"role": "system", "content": "Be brief."}, USER]
    expected, _ = render_jinja_template(
        [messages], chat_template=tokenizer.chat_template, add_generation_prompt=True
    )
    assert render_chat(tokenizer, messages) == expected[0]
    assert expected[0].endswith("<|im_start|>assistant\n")


def test_the_date_is_at_hand() -> None:
    year = render("{{ strftime_now('%Y') }}", [USER])
    assert len(year) == 4
    assert year.isdigit()


def test_text_parts_are_joined_by_line_ends() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    rendered = render("{{ messages[0].content }}", [{"role": "user", "content": parts}])
    assert rendered == "one\ntwo"


def test_a_template_cannot_change_the_messages() -> None:
    with pytest.raises(InvalidRequestError):
        render("{{ messages.append(1) }}", [USER])


def test_a_missing_template_names_the_remedy() -> None:
    with pytest.raises(ModelUnusableError, match=r"no chat template.*--raw.*/v1/completions"):
        render(None, [USER])


def test_a_template_that_does_not_parse_names_the_remedy() -> None:
    with pytest.raises(ModelUnusableError, match=r"broken.*--raw"):
        render("{% for %}", [USER])


def test_a_role_that_the_template_refuses_gives_its_own_message_and_the_remedy() -> None:
    with pytest.raises(InvalidRequestError, match=r"Only user and assistant roles.*--raw") as got:
        render(LLAMA_STYLE, [{"role": "system", "content": "x"}])
    assert got.value.param == "messages"


@pytest.mark.parametrize(
    "template",
    ["{{ 'a' + messages[0].content + 1 }}", "{{ messages[5].content }}", "{{ 1 / 0 }}"],
)
def test_a_template_that_fails_on_the_messages_is_a_fault_of_the_request(template: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"cannot render.*--raw"):
        render(template, [USER])


@pytest.mark.parametrize(
    "message",
    [
        {"content": "x"},
        {"role": 1, "content": "x"},
        {"role": "user", "content": 5},
        {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
        {"role": "user", "content": ["x"]},
    ],
    ids=str,
)
def test_refuses_malformed_messages(message: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match=r"messages\[1\]") as caught:
        render("x", [USER, message])
    assert caught.value.param == "messages"


def test_refuses_an_empty_conversation() -> None:
    with pytest.raises(EmptyPromptError):
        render("x", [])


def test_template_files_go_before_the_settings_and_those_before_the_graphs_note(
    tmp_path: Path,
) -> None:
    settings: dict[str, Any] = {"chat_template": "settings"}
    assert find_chat_template(tmp_path, {}, None) is None
    assert find_chat_template(tmp_path, {}, "note") == "note"
    assert find_chat_template(tmp_path, settings, "note") == "settings"
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": "json"}))
    assert find_chat_template(tmp_path, settings, "note") == "json"
    (tmp_path / "chat_template.jinja").write_text("jinja")
    assert find_chat_template(tmp_path, settings, "note") == "jinja"


def test_of_several_named_templates_the_default_is_taken(tmp_path: Path) -> None:
    named = [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]
    assert find_chat_template(tmp_path, {"chat_template": named}, None) == "d"


def test_a_broken_template_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "chat_template.json").write_text("{")
    with pytest.raises(ModelUnusableError, match="chat_template.json"):
        find_chat_template(tmp_path, {}, None)
