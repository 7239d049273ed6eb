"""Fixtures of the engine's tests."""

from tests.engine.loop_kit import build, tokenizer

__all__ = ["build", "tokenizer"]
