"""Between text and token ids: tokenizer, chat template, streaming text, stop strings."""

from engine.tokens.decoders import PieceStream
from engine.tokens.detokenizer import Detokenizer, StreamingTokenizer
from engine.tokens.stops import Released, StopStrings
from engine.tokens.stream import TextDelta, TextStream
from engine.tokens.template import ChatTokenizer, render_chat
from engine.tokens.tokenizer import SpecialTokens, Tokenizer

__all__ = [
    "ChatTokenizer",
    "Detokenizer",
    "PieceStream",
    "Released",
    "SpecialTokens",
    "StopStrings",
    "StreamingTokenizer",
    "TextDelta",
    "TextStream",
    "Tokenizer",
    "render_chat",
]
