"""Tools: typed functions with a schema, checked arguments and a text result."""

import asyncio
import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from harken import LocalWorld, LoggedString, Tool, tool
from harken.core.messages import Content
from harken.world.result import InvalidArguments, ToolError, ToolTimeout
from harken.world.tool import ToolContext


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    The second is 1 where it is not given.
    """
    return a + b


def run_tool(checked_tool: Tool, **arguments: Any) -> Content:
    return asyncio.run(checked_tool.run(arguments))


@pytest.mark.req("S4-07")
def test_schema_is_built_from_signature_and_docstring() -> None:
    assert add.schema == {
        "name": "add",
        "description": "Add two numbers.\n\nThe second is 1 where it is not given.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
            "required": ["a"],
        },
    }


def test_schema_represents_the_types() -> None:
    @tool
    def paint(
        color: Literal["red", "blue"], where: list[str], how: dict[str, float] | None = None
    ) -> str:
        """Paint."""
        return color

    properties = paint.parameters["properties"]
    assert properties["color"] == {"enum": ["blue", "red"]}
    assert properties["where"] == {"type": "array", "items": {"type": "string"}}
    assert paint.parameters["required"] == ["color", "where"]
    json.dumps(paint.schema)


def test_schema_with_custom_types_has_no_references() -> None:
    @tool
    def place(at: Point) -> str:
        """Place."""
        return f"{at.x}/{at.y}"

    assert place.parameters["$defs"]["Point"]["properties"].keys() == {"x", "y"}
    assert place.parameters["properties"]["at"] == {"$ref": "#/$defs/Point"}
    assert run_tool(place, at={"x": 1, "y": 2}) == "1/2"


@dataclass
class Point:
    """Somewhere."""

    x: int
    y: int


def test_tool_needs_no_arguments_and_may_have_an_explicit_description() -> None:
    @tool(description="Answer.")
    def ping() -> str:
        return "pong"

    assert ping.description == "Answer."
    assert ping.parameters["properties"] == {}
    assert run_tool(ping) == "pong"


def test_tool_may_have_another_name_than_its_function() -> None:
    @tool(name="plus")
    def _add(a: int) -> int:
        """Add."""
        return a

    assert _add.name == _add.schema["name"] == "plus"
    with pytest.raises(InvalidArguments, match="plus has no argument 'b'"):
        run_tool(_add, b=1)


def test_changed_copy_of_a_tool_is_checked_as_a_new_one() -> None:
    @tool
    def read(path: str) -> str:
        """Read a file."""
        return path

    with pytest.raises(TypeError, match="is not a name of at most 64 characters"):
        msgspec.structs.replace(read, name="read file")


@pytest.mark.parametrize("name", ["mcp.x/read", "read file", "öffne", "n" * 65, "read\n"])
def test_name_that_a_provider_rejects_is_rejected_at_definition(name: str) -> None:
    """Otherwise each request would fail, or calls would have an unknown name."""
    with pytest.raises(TypeError, match="is not a name of at most 64 characters of a-z"):
        tool(name=name, description="Read.")(lambda: "x")
    assert tool(name="mcp-x_read", description="Read.")(lambda: "x").name == "mcp-x_read"


def test_argument_without_a_type_is_rejected() -> None:
    with pytest.raises(TypeError, match="untyped: argument x needs a type"):

        @tool
        def untyped(x) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001
            """Untyped."""
            return str(x)


@pytest.mark.req("S4-03")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "missing required field `a`"),
        ({"a": "1"}, "Expected `int`, got `str` - at `$.a`"),
        ({"a": 1, "c": 1}, "no argument 'c'; valid arguments: a, b"),
        ({"a": 1.5}, "got `float`"),
        ({"a": [1]}, "got `array`"),
    ],
)
def test_invalid_arguments_are_reported_with_the_expected_type(
    arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidArguments, match=says.replace("$", r"\$")):
        run_tool(add, **arguments)


def test_defaults_are_not_shared_between_calls() -> None:
    @tool
    def collect(item: str, into: list[str] = []) -> list[str]:  # noqa: B006
        """Collect."""
        into.append(item)
        return into

    assert run_tool(collect, item="a") == '["a"]'
    assert run_tool(collect, item="b") == '["b"]'


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (5, "5"),
        (True, "true"),
        (None, "null"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (("a", 1), '["a",1]'),
        (Point(1, 2), '{"x":1,"y":2}'),
        (datetime(2026, 1, 1, tzinfo=UTC), '"2026-01-01T00:00:00Z"'),
        (Path("/x"), "/x"),
        (10**30, str(10**30)),
        ({1: 2, (1, 2): 3}, "{1: 2, (1, 2): 3}"),
        ({"p": Path("/x")}, "{'p': PosixPath('/x')}"),
        ("\ud83d", "\ud83d"),
    ],
    ids=repr,
)
def test_result_is_always_text(result: Any, text: str) -> None:
    @tool
    def give() -> Any:
        """Give."""
        return result

    assert run_tool(give) == text


def test_result_that_carries_a_message_keeps_it() -> None:
    @tool
    def give() -> str:
        """Give."""
        return LoggedString("hi", "msg_007")

    assert getattr(asyncio.run(give.run({})), "message_id", None) == "msg_007"


@pytest.mark.parametrize("kind", ["def", "async def", "def that returns an awaitable"])
def test_functions_of_all_kinds_become_tools(kind: str) -> None:
    async def later(x: int) -> int:
        await asyncio.sleep(0)
        return x + 1

    def now(x: int) -> int:
        return x + 1

    def mixed(x: int) -> Any:
        return later(x)

    functions: dict[str, Callable[..., Any]] = {
        "def": now,
        "async def": later,
        "def that returns an awaitable": mixed,
    }
    assert run_tool(tool(description="Add one.")(functions[kind]), x=1) == "2"


def test_methods_become_tools() -> None:
    class Shop:
        def __init__(self) -> None:
            self.sold: list[str] = []

        def sell(self, what: str) -> str:
            """Sell something."""
            self.sold.append(what)
            return "sold"

    shop = Shop()
    sell = tool(shop.sell)
    assert (sell.name, list(sell.parameters["properties"])) == ("sell", ["what"])
    assert run_tool(sell, what="tea") == "sold"
    assert shop.sold == ["tea"]


@pytest.mark.parametrize(
    "function", [partial(lambda a, b: a + b, b=1), lambda *a: a], ids=["partial", "variadic"]
)
def test_callable_without_plain_signature_is_rejected_at_definition(function: Any) -> None:
    with pytest.raises(TypeError):
        tool(function)


def test_variadic_function_is_rejected_at_definition() -> None:
    with pytest.raises(TypeError, match="rest"):

        @tool
        def run(command: str, *rest: str) -> str:
            """Run."""
            return command

    with pytest.raises(TypeError, match="options"):

        @tool
        def run_too(command: str, **options: str) -> str:
            """Run."""
            return command


def test_synchronous_function_does_not_block_other_tools() -> None:
    here = threading.Event()

    @tool
    def wait() -> str:
        """Wait."""
        return str(here.wait(5))

    async def both() -> Content:
        waiting = asyncio.create_task(wait.run({}))
        await asyncio.sleep(0)
        here.set()
        return await waiting

    assert asyncio.run(both()) == "True"


def test_tool_timeout_differs_from_a_timeout_error_of_the_tool() -> None:
    @tool(timeout_s=0.01)
    async def slow() -> None:
        """Be slow."""
        await asyncio.sleep(10)

    @tool(timeout_s=10)
    async def says() -> None:
        """Say so."""
        raise TimeoutError("nobody answered")

    with pytest.raises(ToolTimeout, match=r"slow timed out after 0\.01 s"):
        run_tool(slow)
    with pytest.raises(TimeoutError, match="nobody answered"):
        run_tool(says)


def test_read_only_tool_may_be_run_again() -> None:
    @tool(reads_only=True)
    def read() -> str:
        """Read."""
        return ""

    @tool(idempotent=True)
    def save() -> str:
        """Save."""
        return ""

    assert [(t.reads_only, t.idempotent) for t in (read, save, add)] == [
        (True, True),
        (False, True),
        (False, False),
    ]


def test_world_holds_its_tools_by_unique_name() -> None:
    assert LocalWorld([add]).tools == {"add": add}
    with pytest.raises(ValueError, match="add"):
        LocalWorld([add, add])


def test_instructions_are_read_only_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.md").write_text("A")
    (tmp_path / "out.md").write_text("secret")
    (tmp_path / "in" / "link.md").symlink_to(tmp_path / "out.md")
    world = LocalWorld(folder=tmp_path / "in")
    assert world.read_instructions("a.md") == "A"
    assert world.read_instructions("./x/../a.md") == "A"
    for path in ("../out.md", str(tmp_path / "out.md"), "link.md"):
        with pytest.raises(ToolError, match="outside"):
            world.read_instructions(path)
    with pytest.raises(ToolError, match=r"none\.md"):
        world.read_instructions("none.md")
    with pytest.raises(ToolError, match="no folder"):
        LocalWorld().read_instructions("a.md")


def test_instructions_are_a_complete_text_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "latin.md").write_bytes(b"You are \xe4")
    for path, why in (("pipe", "FIFO"), ("latin.md", "UTF-8"), (".", "folder")):
        with pytest.raises(ToolError, match=why):
            LocalWorld(folder=tmp_path).read_instructions(path)


def test_caller_parameter_is_injected_and_not_in_the_schema() -> None:
    @tool
    async def who(loud: bool, caller: ToolContext) -> str:
        """Tell who calls."""
        return f"{caller.agent} by {caller.call}{'!' if loud else ''}"

    assert list(who.parameters["properties"]) == ["loud"]
    assert (
        asyncio.run(who.run({"loud": True}, ToolContext("Jack", "msg_003"))) == "Jack by msg_003!"
    )
    with pytest.raises(InvalidArguments, match="no argument 'caller'"):
        asyncio.run(who.run({"loud": True, "caller": "me"}))


def test_tool_can_be_called_like_its_function() -> None:
    @tool
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    assert double(3) == 6


@pytest.mark.parametrize("unusual", [StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_exception_that_a_task_cannot_carry_becomes_an_ordinary_error(
    unusual: type[BaseException],
) -> None:
    @tool
    def strange() -> str:
        """Raise something strange."""
        raise unusual("odd")

    with pytest.raises(RuntimeError, match=unusual.__name__):
        asyncio.run(strange.run({}))


def test_endless_tool_blocks_neither_other_tools_nor_the_shutdown() -> None:
    never = threading.Event()

    @tool(timeout_s=0.02)
    def stuck() -> str:
        """Never end."""
        never.wait()
        return ""

    async def many() -> Content:
        for _ in range(40):
            with pytest.raises(ToolTimeout):
                await stuck.run({})
        return await add.run({"a": 1})

    assert asyncio.run(asyncio.wait_for(many(), 20)) == "2"
    never.set()


def test_default_without_json_form_is_shown_in_the_nearest_form() -> None:
    @tool
    def area(size: tuple[int, int] = (1, 2), limit: float = float("inf")) -> int:
        """Compute an area."""
        return int(min(size[0] * size[1], limit))

    assert area.schema == json.loads(json.dumps(area.schema))
    assert asyncio.run(area.run({})) == "2"


def test_only_an_async_tool_may_take_the_caller() -> None:
    def plain(caller: ToolContext) -> None:
        """Run in a thread, where the log is not."""

    with pytest.raises(TypeError, match="must be async"):
        tool(plain)
