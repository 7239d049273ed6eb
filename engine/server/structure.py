"""The structure of an answer as clients ask for it: OpenAI's ``response_format``, and vLLM's
``structured_outputs``. Both end as generation options, which know how to check themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from engine.errors import InvalidOptionError

_ANY_OBJECT: Mapping[str, object] = {"type": "object"}


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _schema(value: object) -> object:
    if isinstance(value, dict | bool):
        return cast(object, value)
    raise PydanticCustomError("schema", "must be an object")


class JsonSchemaFormat(_Body):
    """OpenAI's envelope of a schema. It is obeyed to the letter, ``strict`` or not."""

    name: str
    description: str | None = None
    content: Annotated[Any, BeforeValidator(_schema), Field(alias="schema")] = True
    strict: bool | None = None


class ResponseFormat(_Body):
    """OpenAI's ``response_format``."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFormat | None = None

    def options(self) -> dict[str, object]:
        """The generation options that it stands for.

        Raises:
            InvalidOptionError: the type and the schema do not fit together.
        """
        if (self.json_schema is not None) != (self.type == "json_schema"):
            raise InvalidOptionError(
                "'response_format' has a 'json_schema' if, and only if, its type is 'json_schema'.",
                param="response_format",
            )
        if self.json_schema is not None:
            return {"json_schema": self.json_schema.content}
        return {} if self.type == "text" else {"json_schema": _ANY_OBJECT}


class StructuredOutputs(_Body):
    """vLLM's ``structured_outputs``."""

    content: Annotated[Any, Field(alias="json")] = None
    json_object: bool | None = None
    regex: Any = None
    choice: Any = None
    grammar: Any = None

    def options(self) -> Iterator[tuple[str, str, object]]:
        """The generation options that it stands for: the client's name, ours, and the value.

        Raises:
            InvalidOptionError: it is empty.
        """
        asked = (
            ("json", "json_schema", self.content),
            ("json_object", "json_schema", _ANY_OBJECT if self.json_object else None),
            ("regex", "regex", self.regex),
            ("choice", "choice", self.choice),
            ("grammar", "grammar", self.grammar),
        )
        if self.json_object is None and all(value is None for _, _, value in asked):
            names = ", ".join(f"'{name}'" for name, _, _ in asked)
            raise InvalidOptionError(
                f"'structured_outputs' must have one of {names}.", param="structured_outputs"
            )
        for name, own_name, value in asked:
            if value is not None:
                yield f"structured_outputs.{name}", own_name, value
