"""A tool: a typed Python function that a model may call.

The JSON Schema for the model and the check of the arguments that it sends both come from the
signature, so they cannot disagree. An error in a tool is a result for the model, not an exception
for the user.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import Thread
from typing import Any, Literal, TypeAlias, overload

import msgspec

from harken.core import canonical, structs
from harken.core.arguments import check_arguments, format_existing
from harken.core.messages import Content, ImagePart, TextPart, UnknownPart
from harken.world.result import InvalidArguments, ToolTimeout
from harken.world.user import User

Function: TypeAlias = Callable[..., Any]
_PART_TYPES = (TextPart, ImagePart, UnknownPart)
_NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""The tool names that all providers accept. Any other name makes every request with that tool fail.
"""

SubjectKind: TypeAlias = Literal["text", "path", "command", "url"]
"""The way in which rules match the subject of a call: as text, path, shell command or URL."""


class ToolContext(msgspec.Struct, frozen=True):
    """The agent and call for which a tool runs.

    Parameters of this type are injected and not part of the schema.

    With it a tool can let agents inform each other (`caller.agent.inform(...)`) and log a text that
    it creates (`caller.agent.session.log_piece_of_text(..., cause=caller.call)`).
    """

    agent: Any
    """The calling `Agent`."""
    call: str
    """The call as a cause refers to it: `msg_003`, or `msg_003.call_abc`."""
    user: User | None = None
    """The user that a tool may ask, or None. Questions and answers are logged."""
    denies_path: Callable[[str], bool] | None = None
    """Whether a rule excludes a path, though the call itself may run.

    A tool that lists paths omits such a path. None if no rule does.
    """
    environment_changes: Callable[[], Mapping[str, str | None]] = dict
    """Changes to the environment of a program that the tool starts, relative to this process.

    A value of None removes the variable.
    """
    log_start: Callable[[], None] = lambda: None
    """Logs that the tool begins to act, so that a resume does not run the call again."""

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a program that the tool starts."""
        changes = self.environment_changes()
        unchanged = {name: value for name, value in inherited.items() if name not in changes}
        return unchanged | {name: value for name, value in changes.items() if value is not None}


class Tool(msgspec.Struct, frozen=True):
    """A tool that a model may call, created from a function by `tool`.

    Raises TypeError for a name that some provider does not accept.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of its arguments, an object."""
    function: Function
    arguments: type[msgspec.Struct]
    """The same arguments as a type, which validates calls."""
    reads_only: bool = False
    """Whether it changes nothing, so that it may run concurrently with other tools."""
    changed_resource: str = ""
    """The resource that it changes, such as an MCP server.

    Only tools with the same resource wait for each other. Empty: the world.
    """
    idempotent: bool = False
    """Whether it is safe to run again: a call interrupted by a crash is then repeated."""
    timeout_s: float | None = None
    caller: str | None = None
    """The parameter that takes the `ToolContext`."""
    subject: str | None = None
    """The argument that is the subject of a call; permission rules match it."""
    subject_kind: SubjectKind = "text"
    sends_data: bool = False
    """Whether its arguments reach an outside party. It then needs approval even if it only reads.
    """
    edits_files: bool = False
    """Whether it changes only files below the world's folder.

    Rules that deny or ask `edit` or `write` apply to it, too.
    """
    shows_files: bool = False
    """Whether it shows the content of files. Rules that deny or ask `read` apply to it, too."""
    acts_as: str | None = None
    """Another tool with the same effect. Rules that deny or ask that tool apply to this one, too.
    """
    preview: Callable[..., Awaitable[str]] | None = None
    """A function with the same parameters that returns a description of the effect: a diff, a plan.

    It may fail; the agent then reads the error.
    """
    note: str = ""
    """A line for the user with each question, such as whether it runs in the sandbox."""
    reports: bool = False
    """Whether it only records a result of its agent, such as a finding of a review.

    Then every mode allows it; rules still deny it, or ask.
    """
    reserved: bool = False
    """Whether only agents that were given its MCP server by name may use it."""

    def __post_init__(self) -> None:
        if not _NAME_PATTERN.fullmatch(self.name):
            expected = "of at most 64 characters of a-z, A-Z, 0-9, _ and -"
            raise TypeError(f"{self.name!r} is not a name {expected}: pass one to tool(name=...)")

    def with_subject(
        self,
        *,
        by: str | None = None,
        kind: SubjectKind | None = None,
        edits_files: bool = False,
        shows_files: bool = False,
        preview: Callable[..., Awaitable[str]] | None = None,
    ) -> Tool:
        """Return a copy with a subject for permission rules (`by`) and a preview for the user.

        `kind` says how rules match the subject. The default is a path for an argument named `path`
        or a tool that edits files, else a text.
        """
        is_path = edits_files or by == "path"
        return structs.replace(
            self,
            subject=by,
            subject_kind=kind or ("path" if is_path else "text"),
            edits_files=edits_files,
            shows_files=shows_files,
            preview=preview,
        )

    @property
    def lock_key(self) -> Sequence[str]:
        """The names of tools with rules (deny, ask) that apply to it: itself, and equivalent tools.

        A rule that denies `edit` of a file also applies to `write`.
        """
        editing_names = ("edit", "write") if self.edits_files else ()
        equivalent_names = () if self.acts_as is None else (self.acts_as,)
        return (
            self.name,
            *editing_names,
            *(("read",) if self.shows_files else ()),
            *equivalent_names,
        )

    @property
    def schema(self) -> dict[str, Any]:
        """The tool definition that is sent to the model."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as a unit test would."""
        return self.function(*args, **kwargs)

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the validated arguments as the function takes them. Raises InvalidArguments."""
        unknown = sorted(arguments.keys() - set(self.arguments.__struct_fields__))
        if unknown:
            names = self.arguments.__struct_fields__
            raise InvalidArguments(
                f"{self.name} has no argument {unknown[0]!r}"
                + format_existing(names, "arguments", adjective="valid")
            )
        try:
            value = msgspec.convert(arguments, self.arguments)
        except msgspec.ValidationError as error:
            raise InvalidArguments(f"{self.name}: {error}") from None
        return {name: getattr(value, name) for name in self.arguments.__struct_fields__}

    async def run(self, arguments: Mapping[str, Any], caller: ToolContext | None = None) -> Content:
        """Run the function and return its result: text (JSON for other values) or message parts.

        A plain function runs in a thread. Raises InvalidArguments, ToolTimeout after `timeout_s`,
        and whatever the function raises.
        """
        function_arguments = self.check(arguments)
        if self.caller is not None:
            function_arguments[self.caller] = caller
        limit = asyncio.timeout(self.timeout_s)
        try:
            async with limit:
                return as_content(await self._call(function_arguments))
        except TimeoutError:
            if limit.expired() and self.timeout_s is not None:
                raise ToolTimeout(self.name, self.timeout_s) from None
            raise

    async def _call(self, arguments: Mapping[str, Any]) -> Any:
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**arguments)
        result = await in_thread(partial(self.function, **arguments))
        return await result if isinstance(result, Awaitable) else result


async def in_thread(function: Callable[[], Any]) -> Any:
    """Run a function in a new thread and return its result, or raise its exception.

    Each call has its own thread, so a tool that never ends blocks neither another tool nor the exit
    of the process, as it would in a pool. StopIteration, which a future cannot carry, SystemExit
    and KeyboardInterrupt are converted to RuntimeError.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def set_outcome(result: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result(result) if error is None else future.set_exception(error)

    def run() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = function()
        except (StopIteration, SystemExit, KeyboardInterrupt) as exit_error:
            error = RuntimeError(f"{type(exit_error).__name__}: {exit_error}")
        except (Exception, asyncio.CancelledError) as failure:  # noqa: BLE001 - raised below
            error = failure
        except BaseException as exit_error:  # noqa: BLE001 - it ends only the function
            error = RuntimeError(type(exit_error).__name__)
        with suppress(RuntimeError):  # the loop is closed, so no task waits for the result
            loop.call_soon_threadsafe(set_outcome, result, error)

    context = copy_context()
    Thread(target=context.run, args=(run,), name="harken tool", daemon=True).start()
    return await future


def as_content(result: Any) -> Content:
    """Convert the return value of a function to message content: text, or a list of parts.

    Other values are encoded as JSON, or with `str` if that fails: the function has already acted,
    so an unserializable result must not count as a failure.
    """
    if isinstance(result, str):
        return result
    if (
        isinstance(result, list)
        and result
        and all(isinstance(part, _PART_TYPES) for part in result)
    ):
        return result
    try:
        return canonical.to_json_line(result).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(result)


@overload
def tool(function: Function) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    reads_only: bool = False,
    idempotent: bool = False,
    timeout_s: float | None = None,
) -> Callable[[Function], Tool]: ...
@check_arguments
def tool(
    function: Function | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    reads_only: bool = False,
    idempotent: bool = False,
    timeout_s: float | None = None,
) -> Tool | Callable[[Function], Tool]:
    """Create a tool from a typed function. The model reads its docstring, or the `description`.

    >>> @tool
    ... def add(a: int, b: int = 1) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> add.name, add.description, add.parameters["required"]
    ('add', 'Add two numbers.', ['a'])

    Raises TypeError for a function without a description or types, and for a generator.
    """

    def make_tool(function: Function) -> Tool:
        _check_function(function)
        text = inspect.cleandoc(description or function.__doc__ or "")
        tool_name = name or str(getattr(function, "__name__", ""))
        if not text:
            raise TypeError(
                f"{tool_name or function}: a tool needs a docstring, or "
                "tool(description=...), as its description for the model"
            )
        arguments = arguments_of(function, tool_name)
        return Tool(
            name=tool_name,
            description=text,
            parameters=schema_of(arguments),
            function=function,
            arguments=arguments,
            reads_only=reads_only,
            idempotent=idempotent or reads_only,
            timeout_s=timeout_s,
            caller=_find_context_parameter(function),
        )

    return make_tool if function is None else make_tool(function)


def typed_tool(
    arguments: type[msgspec.Struct],
    function: Callable[[Any, ToolContext | None], Awaitable[Any]],
    *,
    name: str,
    reads_only: bool = False,
) -> Tool:
    """Create a tool whose arguments are a type, which also has the description as its docstring.

    So the arguments may be more than a signature holds well, and types may share them. The function
    gets a value of the type and the caller.
    """

    async def call(*, caller: ToolContext | None, **values: Any) -> Any:
        return await function(arguments(**values), caller)

    schema = schema_of(arguments)
    schema.pop("description", None)  # It is the description of the tool.
    return Tool(
        name=name,
        description=inspect.cleandoc(arguments.__doc__ or ""),
        parameters=schema,
        function=call,
        arguments=arguments,
        reads_only=reads_only,
        idempotent=reads_only,
        caller="caller",
    )


def _check_function(function: object) -> None:
    """Raise TypeError if a value cannot be made into a tool; the text says why."""
    if isinstance(function, Tool):
        raise TypeError(f"{function.name} is already a tool: pass it directly")
    if isinstance(function, type) or not callable(function):
        raise TypeError(
            f"a tool needs a function, not {function!r}; to rename a tool write @tool(name=...)"
        )
    name = getattr(function, "__name__", repr(function))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name}: a tool must return its result, but this function yields")


def arguments_of(function: Function, name: str) -> type[msgspec.Struct]:
    """Return a msgspec type for the arguments of a function.

    Raises TypeError if a parameter has no type, or cannot be passed by name.
    """
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    fields: list[Any] = []
    if not name:
        raise TypeError(f"{function!r} has no name: pass one to tool(name=...)")
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.kind not in by_name:
            raise TypeError(f"{name}: argument {parameter.name} cannot be passed by name")
        if parameter.annotation is inspect.Parameter.empty:
            raise TypeError(f"{name}: argument {parameter.name} needs a type")
        if parameter.annotation is ToolContext:
            if not inspect.iscoroutinefunction(function):
                raise TypeError(f"{name}: a tool with a ToolContext parameter must be async")
            continue
        field = (parameter.name, parameter.annotation)
        is_required = parameter.default is inspect.Parameter.empty
        fields.append(field if is_required else (*field, parameter.default))
    return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True)


def _find_context_parameter(function: Function) -> str | None:
    """Return the parameter that takes the `ToolContext`. Return None if there is none."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return next(
        (parameter.name for parameter in parameters if parameter.annotation is ToolContext), None
    )


def schema_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of an arguments type, without `$defs` if it has no nested types."""
    try:
        (reference,), definitions = msgspec.json.schema_components([arguments])
        definitions = canonical.from_json(canonical.to_json_line(definitions))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{arguments.__name__}: cannot create a JSON schema: {error}") from None
    schema = definitions.pop(reference["$ref"].rpartition("/")[2])
    schema.pop("title", None)
    return {**schema, "$defs": definitions} if definitions else schema


def parse(name: str, arguments: str) -> dict[str, Any]:
    """Parse the arguments that a model wrote for a tool. Raises InvalidArguments."""
    try:
        text = arguments if arguments.strip() else "{}"
        value = canonical.from_json(text.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(f"the arguments of {name} are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArguments(
            f"the arguments of {name} must be a JSON object, not {arguments[:80]}"
        )
    return value
