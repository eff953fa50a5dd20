"""A file change wakes a subagent, which reports to the agent that talks with the user."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.example import Example
from harken import LocalWorld, Permissions
from harken.world.local import local_tools, local_triggers
from harken.world.triggers.tools import trigger_tools


async def play(example: Example) -> None:
    """Change a watched file, and print the report."""
    with TemporaryDirectory() as path:
        folder = Path(path)
        (folder / "stock.csv").write_text("tea,12\n")
        sources = local_triggers(folder, outputs=folder / "outputs")
        tools = [*local_tools(folder, outputs=folder / "outputs"), *trigger_tools(sources)]
        world = LocalWorld(tools, folder=folder, permissions=Permissions(mode="all"))
        world.sources = sources
        async with example.open("shopkeeper", world=world) as shop, shop.listen():
            print(await shop.say("Have somebody watch stock.csv, and tell me when tea runs out."))
            await asyncio.sleep(0.5)  # The watch starts in the background.
            (folder / "stock.csv").write_text("tea,0\n")
            async with asyncio.timeout(300):
                await shop.wait_for_unread()
            print(await shop.say())
