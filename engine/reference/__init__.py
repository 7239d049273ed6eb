"""OpenVINO GenAI behind the engine's interface: the peer to compare with, and the way out for a
model that our own backends refuse.

Its `LLMPipeline` samples and drafts; what is said about its answers is what it tells, and blank
where it tells nothing: no log probabilities, no drafts of a single step, no times of a single step.
It is not built for many users: one answer at a time, in the order of submission.
"""

from engine.reference.engine import GenAIEngine
from engine.reference.open import open_engine

__all__ = ["GenAIEngine", "open_engine"]
