"""A watcher below the agent that the user talks with is woken when a file changes."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.example import Example
from harken import Permissions, World
from harken.world.local import local_tools, local_triggers
from harken.world.triggers.tools import trigger_tools


async def play(example: Example) -> None:
    """Let somebody else change a file, and see who hears of it."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "stock.csv").write_text("tea,12\n")
        sources = local_triggers(folder, outputs=folder / "outputs")
        tools = [*local_tools(folder, outputs=folder / "outputs"), *trigger_tools(sources)]
        world = World(tools, folder=folder, permissions=Permissions(mode="all"))
        world.sources = sources
        async with example.open("shopkeeper", world=world) as shop, shop.listen():
            print(await shop.say("Have somebody watch stock.csv, and tell me when tea runs out."))
            await asyncio.sleep(0.5)  # watching has begun
            (folder / "stock.csv").write_text("tea,0\n")
            async with asyncio.timeout(300):
                await shop.news()
            print(await shop.say())
