"""The streamed text of any tokens is their text, whole characters at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tokens import Detokenizer, Tokenizer, graphs
from engine.tokens.decoders import ByteDecoder, GraphDecoder

SENTENCES = "Grüße, é e\u0301 😀👩\u200d👩\u200d👧 汉字 עברית <|im_end|> don't . 'so' \ufffd x"


@cache
def load(folder: Path) -> Tokenizer:
    return Tokenizer.load(folder)


def random_ids(tokenizer: Tokenizer) -> st.SearchStrategy[list[int]]:
    """Any tokens, with those that are parts of characters, special, or real text more often."""
    broken = [
        token for token in range(tokenizer.vocab_size) if "\ufffd" in tokenizer.token_text(token)
    ]
    common = tokenizer.encode(SENTENCES)
    some = st.one_of(
        st.integers(0, tokenizer.vocab_size - 1),
        st.sampled_from(broken or common),
        st.sampled_from(sorted(tokenizer.special_ids)),
        st.sampled_from(common),
    )
    starts = st.integers(0, len(common) - 1)
    runs = st.one_of(some.map(lambda token: [token]), starts.map(lambda i: common[i : i + 10]))
    return st.lists(runs, max_size=20).map(
        lambda parts: [token for part in parts for token in part]
    )


def stream(tokenizer: Tokenizer, ids: list[int]) -> tuple[list[str], str]:
    detokenizer = Detokenizer(tokenizer)
    return [detokenizer.push(token) for token in ids], detokenizer.flush()


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_pieces_join_to_the_text_of_all_tokens(any_folder: Path, data: st.DataObject) -> None:
    tokenizer = load(any_folder)
    ids = data.draw(random_ids(tokenizer))
    pieces, tail = stream(tokenizer, ids)
    assert "".join(pieces) + tail == tokenizer.decode(ids)


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_text_is_that_of_the_untouched_graph(
    any_folder: Path,
    run_detokenizer: Callable[[Path], Callable[[list[int]], str]],
    data: st.DataObject,
) -> None:
    tokenizer = load(any_folder)
    ids = data.draw(random_ids(tokenizer).filter(bool))
    assert tokenizer.decode(ids) == run_detokenizer(any_folder)(ids)


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_the_real_graph_streams_through_a_window_as_well(
    smollm2: Path, as_graph: GraphDecoder, data: st.DataObject
) -> None:
    ids = data.draw(random_ids(load(smollm2)))
    window = as_graph.stream()
    assert "".join([window.push(token) for token in ids]) + window.flush() == as_graph.decode(ids)


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_no_piece_ends_in_a_broken_character_that_later_tokens_mend(
    any_folder: Path, data: st.DataObject
) -> None:
    tokenizer = load(any_folder)
    ids = data.draw(random_ids(tokenizer))
    pieces, _ = stream(tokenizer, ids)
    whole, shown = tokenizer.decode(ids), ""
    for piece in pieces:
        shown += piece
        assert whole.startswith(shown)


@pytest.mark.parametrize("text", ["é", "😀", "汉字", "👩\u200d👧", "e\u0301"])
def test_real_text_comes_out_whole_without_a_tail(tokenizer: Tokenizer, text: str) -> None:
    pieces, tail = stream(tokenizer, tokenizer.encode(text))
    assert "".join(pieces) == text
    assert tail == ""
    assert not any("\ufffd" in piece for piece in pieces)


def test_a_special_token_inside_a_character_does_not_break_it(tokenizer: Tokenizer) -> None:
    first, *others = tokenizer.encode("😀")
    assert tokenizer.eos_token_id is not None
    pieces, tail = stream(tokenizer, [first, tokenizer.eos_token_id, *others])
    assert "".join(pieces) + tail == "😀"


def test_a_lone_fragment_comes_at_the_flush_as_decoding_gives_it(byte_level: Path) -> None:
    tokenizer = load(byte_level)
    fragment = next(t for t in range(tokenizer.vocab_size) if tokenizer.token_bytes(t) == b"\xf0")
    pieces, tail = stream(tokenizer, [fragment])
    assert (pieces, tail) == ([""], tokenizer.decode([fragment]))
    assert tail == "\ufffd"


def test_a_byte_level_vocabulary_needs_no_call_of_the_graph(smollm2: Path) -> None:
    assert isinstance(graphs.load_decoder(smollm2).decoder, ByteDecoder)


@pytest.fixture(scope="module")
def as_graph(smollm2: Path) -> GraphDecoder:
    """The real model's decoder, kept from being recognised as byte-level."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs, "_BYTE_LEVEL", ["nothing"])
        decoder = graphs.load_decoder(smollm2).decoder
    assert isinstance(decoder, GraphDecoder)
    return decoder
