"""The three things to try that an empty conversation offers: each is one click.

One answer copies most of its tokens from the question, one is written freely, one is asked twice,
with speculation and without. Texts only.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """``title`` and ``about`` are shown, ``prompt`` is asked; a comparison asks it twice."""

    title: str
    about: str
    icon: str
    prompt: str
    is_comparison: bool = False


_CODE = '''```python
def add_all(items):
    """Return the sum of all prices, taxes included."""
    total = 0
    for item in items:
        if item.price is None:
            continue
        total = total + item.price * (1 + item.tax)
    return total
```'''

EXAMPLES = (
    Example(
        "Change a piece of code",
        "Most of the answer stands in the question: drafting shines.",
        "file-code",
        f"Repeat this code exactly, but rename total to amount.\n\n{_CODE}",
    ),
    Example(
        "Write something new",
        "Nothing to copy from: drafting stays out of the way.",
        "pencil-line",
        "Tell me a short story about a fox who learns to ride a bicycle.",
    ),
    Example(
        "See the difference",
        "The same question twice: with speculation, then without.",
        "scale",
        "Write out the days of the week, each with a short sentence about it, "
        "then write the same list again.",
        is_comparison=True,
    ),
)
