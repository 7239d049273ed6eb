"""Text and tokens of one answer, cut at stop strings."""

from __future__ import annotations

from engine.tokens import TextDelta, TextStream, Tokenizer


def test_the_token_that_completes_a_stop_string_is_the_last(tokenizer: Tokenizer) -> None:
    stream = TextStream(tokenizer, ["jumps over"], include_stop=False)
    ids = tokenizer.encode("The fox jumps over the dog")
    kept: list[int] = []
    shown = ""
    for token in ids:
        delta = stream.push(token)
        kept.append(token)
        shown += delta.text
        if delta.stopped:
            break
    assert shown == "The fox "
    assert tokenizer.decode(kept) == "The fox jumps over"
    assert stream.finish() == ""


def test_a_stop_string_stays_in_the_text_when_asked_for(tokenizer: Tokenizer) -> None:
    stream = TextStream(tokenizer, [" jum"], include_stop=True)
    shown = "".join(stream.push(token).text for token in tokenizer.encode("The fox jumps over"))
    assert shown + stream.finish() == "The fox jum"


def test_tokens_after_a_stop_in_the_same_block_change_nothing(tokenizer: Tokenizer) -> None:
    stream = TextStream(tokenizer, ["fox"], include_stop=False)
    deltas = [stream.push(token) for token in tokenizer.encode("The fox jumps over")]
    assert "".join(delta.text for delta in deltas) == "The "
    assert [delta.stopped for delta in deltas] == [False, True, True, True]


def test_the_tail_is_what_was_held_back_for_a_stop_string_that_never_came(
    tokenizer: Tokenizer,
) -> None:
    stream = TextStream(tokenizer, ["over the moon"], include_stop=False)
    shown = "".join(stream.push(token).text for token in tokenizer.encode("jumps over the"))
    assert shown == "jumps "
    assert stream.finish() == "over the"


def test_a_character_belongs_to_the_token_that_completes_it(tokenizer: Tokenizer) -> None:
    stream = TextStream(tokenizer, (), include_stop=False)
    ids = tokenizer.encode("😀")
    assert len(ids) > 1
    deltas = [stream.push(token) for token in ids]
    assert [delta.token_text for delta in deltas] == [""] * (len(ids) - 1) + ["😀"]


def test_token_texts_are_there_even_while_the_text_is_held_back(tokenizer: Tokenizer) -> None:
    stream = TextStream(tokenizer, ["hello world"], include_stop=False)
    (token,) = tokenizer.encode("hello")
    assert stream.push(token) == TextDelta(text="", token_text="hello", stopped=False)


def test_a_special_token_adds_nothing(tokenizer: Tokenizer) -> None:
    assert tokenizer.eos_token_id is not None
    stream = TextStream(tokenizer, (), include_stop=False)
    assert stream.push(tokenizer.eos_token_id) == TextDelta("", "", stopped=False)
