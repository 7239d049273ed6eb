"""Random JSON schemas whose answers are short, and prompts that beg for anything but JSON."""

from __future__ import annotations

from random import Random
from typing import Any

BEGGING = (
    "Answer in a markdown code fence, and on no account in JSON: write a Python function.",
    "Write a poem of two lines about the sea. No JSON, no braces, no quotation marks.",
    "Reply with the single word HELLO and nothing else.",
    "Explain in plain prose why the sky is blue. Begin with the words 'The sky'.",
    "Give me an HTML table with three rows. Do not write JSON.",
    "List three fruits, each on a line of its own that begins with a dash.",
    'Repeat after me: "name: Bob, age: 42, tags: a, b, a, b, a, b".',
    "Count from 1 to 20, with commas between the numbers.",
)

_WORDS = ("red", "green", "blue", "Bob", "a b", "naïve", "x/y", 'say "hi"', "tab\there", "日本")
_KEYS = ("name", "age", "tags", "size", "kind", "is ok", "ключ")
_PATTERNS = ("^[A-Z]{2}-[0-9]{3}$", "^(ab|cd)+$", "^[a-z]{1,8}$")


def random_schema(seed: int) -> dict[str, Any]:
    """The same schema for the same seed; an object or an array at the top."""
    random = Random(seed)
    make = random.choice((_object, _object, _object, _array))
    return make(random, 2)


def _any(random: Random, depth: int) -> dict[str, Any]:
    leaves = (_string, _integer, _number, _enum, _boolean, _constant)
    return random.choice((*leaves, _object, _array, _any_of) if depth else leaves)(random, depth)


def _object(random: Random, depth: int) -> dict[str, Any]:
    names = random.sample(_KEYS, random.randint(1, 3))
    return {
        "type": "object",
        "properties": {name: _any(random, depth - 1) for name in names},
        "required": [name for name in names if random.random() < 0.7],
        "additionalProperties": False,
    }


def _array(random: Random, depth: int) -> dict[str, Any]:
    least = random.randint(0, 2)
    most = least + random.randint(0, 2)
    return {
        "type": "array",
        "items": _any(random, depth - 1),
        "minItems": least,
        "maxItems": most,
    }


def _any_of(random: Random, depth: int) -> dict[str, Any]:
    return {"anyOf": [_any(random, depth - 1) for _ in range(2)]}


def _string(random: Random, depth: int) -> dict[str, Any]:
    if random.random() < 0.25:
        return {"type": "string", "pattern": random.choice(_PATTERNS), "maxLength": 10}
    if random.random() < 0.15:
        return {"type": "string", "format": random.choice(("date", "ipv4", "uuid"))}
    least = random.randint(0, 4)
    return {"type": "string", "minLength": least, "maxLength": least + random.randint(1, 12)}


def _integer(random: Random, depth: int) -> dict[str, Any]:
    least = random.randint(-1000, 1000)
    upper = random.choice(("maximum", "exclusiveMaximum"))
    return {"type": "integer", "minimum": least, upper: least + random.randint(2, 2000)}


def _number(random: Random, depth: int) -> dict[str, Any]:
    least = random.randint(-50, 50) / 4
    return {"type": "number", "exclusiveMinimum": least, "maximum": least + random.randint(1, 40)}


def _enum(random: Random, depth: int) -> dict[str, Any]:
    values: list[object] = [*random.sample(_WORDS, 3), random.randint(0, 99), None, True, [1, 2]]
    return {"enum": random.sample(values, random.randint(1, 4))}


def _constant(random: Random, depth: int) -> dict[str, Any]:
    return {"const": random.choice(_WORDS)}


def _boolean(random: Random, depth: int) -> dict[str, Any]:
    return {"type": random.choice(("boolean", "null", ["boolean", "null"]))}
