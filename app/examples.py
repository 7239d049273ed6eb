"""The three things to try that an empty conversation offers: each is one click.

One answer copies most of its tokens from the question, one is written freely, one is asked twice,
with speculation and without. Texts only.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.wire import DEFAULT_MAX_TOKENS


@dataclass(frozen=True, slots=True)
class Example:
    """``title`` and ``about`` are shown, ``prompt`` is asked; a comparison asks it twice."""

    title: str
    about: str
    icon: str
    prompt: str
    is_comparison: bool = False
    max_tokens: int = DEFAULT_MAX_TOKENS
    temperature: float | None = None


_BASKET = """```python
class Basket:
    def __init__(self):
        self.items = []

    def add(self, name, price):
        self.items.append((name, price))

    def total(self):
        return sum(price for name, price in self.items)
```"""

_TIMER = """```python
class Timer:
    def __init__(self, name):
        self.name = name
        self.laps = []

    def lap(self, seconds):
        self.laps.append(seconds)

    def fastest(self):
        return min(self.laps)
```"""

EXAMPLES = (
    Example(
        "Copy a piece of code",
        "Most of the answer stands in the question: drafting shines.",
        "file-code",
        f"Copy this code.\n\n{_BASKET}",
    ),
    Example(
        "Write something new",
        "Nothing to copy from: drafting stays out of the way.",
        "pencil-line",
        "Tell me a short story about a fox who learns to ride a bicycle.",
        max_tokens=250,
        temperature=0.8,  # a small model that always takes the likeliest word copies itself
    ),
    Example(
        "See the difference",
        "The same question twice: with speculation, then without.",
        "scale",
        f"Copy this code.\n\n{_TIMER}",
        is_comparison=True,
    ),
)
