"""A tool: a typed Python function that a model may call.

The schema that the model sees and the check of what it sends both come from the signature, so
they cannot disagree. What goes wrong in a tool is told to the model, not raised at the user.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from threading import Thread
from typing import Any, Literal, TypeAlias, overload

import msgspec

from harken.core import canonical
from harken.core.arguments import check_arguments
from harken.core.messages import Content, ImagePart, TextPart, UnknownPart
from harken.world.result import InvalidArguments, ToolTimeout
from harken.world.user import User

Function: TypeAlias = Callable[..., Any]
_PARTS = (TextPart, ImagePart, UnknownPart)
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""The names that all providers take: another one fails every request with that tool in it."""

SubjectKind: TypeAlias = Literal["text", "path", "command", "url"]
"""How permission rules match what a call is about: as it is, as a path, as a shell command, as a
URL."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Who calls a tool, and with which call: a parameter of this type is filled in, not shown.

    With it a tool can let agents hear each other (`caller.agent.inform(...)`) and log a text that
    it makes (`caller.agent.session.log_piece_of_text(..., cause=caller.call)`).
    """

    agent: Any
    """The calling `Agent`."""
    call: str
    """How a cause names the call: `msg_003`, or `msg_003.call_abc`."""
    user: User | None = None
    """Whom a tool may ask; None where there is nobody. What is asked and answered is logged."""
    denies_path: Callable[[str], bool] | None = None
    """Says of a path whether a rule keeps it from this call, though the call as such may run: a
    tool that finds paths leaves it out. None: no rule does."""
    environment_changes: Callable[[], Mapping[str, str | None]] = dict
    """What a program that the tool starts gets in its environment beside what we have ourselves;
    None is a variable that it does not get."""

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a program that the tool starts, from the one that we have."""
        changes = self.environment_changes()
        kept = {name: value for name, value in inherited.items() if name not in changes}
        return kept | {name: value for name, value in changes.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Tool:
    """Something a model may call. Made from a function by `tool`.

    Raises TypeError for a name that not all providers take.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of its arguments, an object."""
    function: Function
    arguments: type[msgspec.Struct]
    """The same arguments as a type, against which calls are checked."""
    reads_only: bool = False
    """It changes nothing, so it may run beside others."""
    changed_resource: str = ""
    """What it changes where that is something apart, such as an MCP server: tools that change the
    same wait for each other alone. Empty: the world."""
    idempotent: bool = False
    """Running it again does no harm: a call cut off by a crash is simply run again."""
    timeout_s: float | None = None
    caller: str | None = None
    """The parameter that takes the `ToolContext`."""
    subject: str | None = None
    """The argument that says what a call is about; permission rules match it."""
    subject_kind: SubjectKind = "text"
    sends_data: bool = False
    """It lets somebody outside know what it is called with: it is asked, though it only reads."""
    edits_files: bool = False
    """All that it changes is files below the world's folder. Rules that deny or ask `edit` or
    `write` hold for it, too."""
    shows_files: bool = False
    """It shows what is in files. Rules that deny or ask `read` hold for it, too."""
    acts_as: str | None = None
    """Another tool whose rules that deny or ask hold for it, too: it does the same another way."""
    preview: Callable[..., Awaitable[str]] | None = None
    """Takes what the function takes and says what it would do: a diff, a plan. May fail; the agent
    reads why, whatever it may not read."""
    note: str = ""
    """A line for the user with each question: how it runs, in the sandbox or not."""
    reserved: bool = False
    """Only agents that were given the MCP server that it is of by name may use it."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            expected = "of at most 64 of a-z, A-Z, 0-9, _ and -"
            raise TypeError(f"{self.name!r} is no name {expected}: pass one to tool(name=...)")

    def with_subject(
        self,
        *,
        by: str | None = None,
        kind: SubjectKind | None = None,
        edits_files: bool = False,
        shows_files: bool = False,
        preview: Callable[..., Awaitable[str]] | None = None,
    ) -> Tool:
        """Return the tool with what permission rules match (`by`), and what a user is shown.

        `kind` says how they match it: an argument named `path`, or that of a tool which edits
        files, is a path; any other is a text.
        """
        is_path = edits_files or by == "path"
        return replace(
            self,
            subject=by,
            subject_kind=kind or ("path" if is_path else "text"),
            edits_files=edits_files,
            shows_files=shows_files,
            preview=preview,
        )

    @property
    def lock_key(self) -> Sequence[str]:
        """The tools whose rules that deny or ask hold for it: itself, and those that do the same.

        Who says that `edit` may not change a file does not mean that `write` may.
        """
        editing = ("edit", "write") if self.edits_files else ()
        other = () if self.acts_as is None else (self.acts_as,)
        return (self.name, *editing, *(("read",) if self.shows_files else ()), *other)

    @property
    def schema(self) -> dict[str, Any]:
        """What the model is shown."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as a test of it would."""
        return self.function(*args, **kwargs)

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them. Raises InvalidArguments."""
        unknown = sorted(arguments.keys() - set(self.arguments.__struct_fields__))
        if unknown:
            known = ", ".join(self.arguments.__struct_fields__) or "none"
            raise InvalidArguments(f"{self.name} has no argument {unknown[0]!r}; it takes: {known}")
        try:
            value = msgspec.convert(arguments, self.arguments)
        except msgspec.ValidationError as error:
            raise InvalidArguments(f"{self.name}: {error}") from None
        return {name: getattr(value, name) for name in self.arguments.__struct_fields__}

    async def run(self, arguments: Mapping[str, Any], caller: ToolContext | None = None) -> Content:
        """Run the function and return its result: text (JSON where it is none), or parts.

        A plain function runs in a thread. Raises InvalidArguments, ToolTimeout after `timeout_s`,
        and whatever the function raises.
        """
        checked = self.check(arguments)
        if self.caller is not None:
            checked[self.caller] = caller
        limit = asyncio.timeout(self.timeout_s)
        try:
            async with limit:
                return as_content(await self._call(checked))
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
    """Run a function in a thread of its own and return what it returns, or raise what it raises.

    One thread a call: a tool that never ends holds up no other, nor the end of the program, as
    it would in a pool. StopIteration, which a task cannot carry, and what ends a program are
    RuntimeErrors.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result(result) if error is None else done.set_exception(error)

    def work() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = function()
        except (StopIteration, SystemExit, KeyboardInterrupt) as odd:
            error = RuntimeError(f"{type(odd).__name__}: {odd}")
        except (Exception, asyncio.CancelledError) as failure:  # noqa: BLE001 - raised below
            error = failure
        except BaseException as odd:  # noqa: BLE001 - a function has ended, not the program
            error = RuntimeError(type(odd).__name__)
        with suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(settle, result, error)

    context = copy_context()
    Thread(target=context.run, args=(work,), name="harken tool", daemon=True).start()
    return await done


def as_content(result: Any) -> Content:
    """Return what a function gave as a model reads it: text, or parts (an image) as they are.

    What is neither is JSON, or its `str` where it has none. The function has acted by now: that
    its result cannot be written as JSON is no failure of it.
    """
    if isinstance(result, str):
        return result
    if isinstance(result, list) and result and all(isinstance(one, _PARTS) for one in result):
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
    """Make a tool of a typed function; the model is told its docstring, or the `description`.

    >>> @tool
    ... def add(a: int, b: int = 1) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> add.name, add.description, add.parameters["required"]
    ('add', 'Add two numbers.', ['a'])

    Raises TypeError for a function without a description or without types, and for a generator.
    """

    def make(function: Function) -> Tool:
        _check_function(function)
        text = inspect.cleandoc(description or function.__doc__ or "")
        called = name or str(getattr(function, "__name__", ""))
        if not text:
            raise TypeError(
                f"{called or function}: a tool needs a docstring, or tool(description=...): "
                f"the model reads there what it does"
            )
        arguments = arguments_of(function, called)
        return Tool(
            name=called,
            description=text,
            parameters=schema_of(arguments),
            function=function,
            arguments=arguments,
            reads_only=reads_only,
            idempotent=idempotent or reads_only,
            timeout_s=timeout_s,
            caller=_caller_of(function),
        )

    return make if function is None else make(function)


def _check_function(function: object) -> None:
    """Raise TypeError for a value that no tool can be made of; the text says what is missing."""
    if isinstance(function, Tool):
        raise TypeError(f"{function.name} is a tool already: pass it as it is")
    if isinstance(function, type) or not callable(function):
        raise TypeError(
            f"a tool is made of a function, not of {function!r}; for another name of the tool "
            f"write @tool(name=...)"
        )
    name = getattr(function, "__name__", repr(function))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name}: a tool returns its result, and this function yields: return it")


def arguments_of(function: Function, name: str) -> type[msgspec.Struct]:
    """Return the type of a function's arguments.

    Raises TypeError where one has no type, or cannot be given by name.
    """
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    fields: list[Any] = []
    if not name:
        raise TypeError(f"{function!r} has no name: pass one to tool(name=...)")
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.kind not in by_name:
            raise TypeError(f"{name}: argument {parameter.name} cannot be given by name")
        if parameter.annotation is inspect.Parameter.empty:
            raise TypeError(f"{name}: argument {parameter.name} needs a type")
        if parameter.annotation is ToolContext:
            if not inspect.iscoroutinefunction(function):
                raise TypeError(f"{name}: a tool that takes the Caller must be async")
            continue
        field = (parameter.name, parameter.annotation)
        empty = parameter.default is inspect.Parameter.empty
        fields.append(field if empty else (*field, parameter.default))
    return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True)


def _caller_of(function: Function) -> str | None:
    """Return the parameter that takes the `ToolContext`, None where there is none."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return next((one.name for one in parameters if one.annotation is ToolContext), None)


def schema_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of an arguments type, in one piece where it has no inner types."""
    try:
        (reference,), definitions = msgspec.json.schema_components([arguments])
        definitions = canonical.from_json(canonical.to_json_line(definitions))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{arguments.__name__}: no schema can be made: {error}") from None
    own = definitions.pop(reference["$ref"].rpartition("/")[2])
    own.pop("title", None)
    return {**own, "$defs": definitions} if definitions else own


def parse(name: str, arguments: str) -> dict[str, Any]:
    """Return the arguments that a model wrote for a tool. Raises InvalidArguments."""
    try:
        text = arguments if arguments.strip() else "{}"
        value = canonical.from_json(text.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(f"the arguments of {name} are no JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArguments(f"the arguments of {name} are no JSON object but {arguments[:80]}")
    return value
