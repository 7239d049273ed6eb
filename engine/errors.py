"""Every error that a user can cause, in one tree.

Each class has a stable ``code``, which travels over HTTP and into the window, and an HTTP status.
The message is one sentence that names the fault and the remedy; it is shown to people as it is.
Errors of our own making (a broken invariant) are plain ``AssertionError`` and not part of this
tree.
"""

from __future__ import annotations


class PacelineError(Exception):
    """Root of the tree: a fault with a stable code, an HTTP status and a message for people."""

    code = "internal_error"
    http_status = 500

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        """Name of the field at fault, where there is one."""


class InvalidRequestError(PacelineError):
    """A request that cannot be served as it is written."""

    code = "invalid_request"
    http_status = 400


class InvalidOptionError(InvalidRequestError):
    """A field has a value that is out of bounds, of the wrong type, or contradicts another."""

    code = "invalid_option"


class UnsupportedOptionError(InvalidRequestError):
    """A field is right in itself, but the chosen drafter or backend cannot honour it."""

    code = "unsupported_option"


class StructureFailedError(InvalidRequestError):
    """The structure that an answer must have turned out to be out of reach on the way."""

    code = "structure_failed"


class EmptyPromptError(InvalidRequestError):
    """There is no token to start from."""

    code = "empty_prompt"


class ContextLengthError(InvalidRequestError):
    """The prompt does not fit into the model's context."""

    code = "context_length_exceeded"


class CacheTooSmallError(InvalidRequestError):
    """The key/value cache can never hold the request, however long it waits."""

    code = "cache_too_small"


class ModelNotFoundError(PacelineError):
    """The named model is not here."""

    code = "model_not_found"
    http_status = 404


class ModelUnusableError(PacelineError):
    """The model folder is here but something in it is missing or cannot be used."""

    code = "model_unusable"
    http_status = 400


class UnknownDrafterError(PacelineError):
    """The named drafter does not exist."""

    code = "drafter_not_found"
    http_status = 400


class PlanRefusedError(PacelineError):
    """An explicit choice (device, backend, drafter) cannot be followed; says why."""

    code = "plan_refused"
    http_status = 400


class UnauthorizedError(PacelineError):
    """The request carries no key, or a wrong one."""

    code = "unauthorized"
    http_status = 401


class StepFailedError(PacelineError):
    """Something broke in the middle of a step; the engine itself goes on."""

    code = "step_failed"


class EngineStoppedError(PacelineError):
    """The engine was closed before the request could end."""

    code = "engine_stopped"
    http_status = 503
