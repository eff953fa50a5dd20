"""Three reviewers read a real change, each for one aspect; a lead combines their reviews."""

from examples.example import Example
from harken import Permissions, local_world


async def play(example: Example) -> None:
    """Review `change.diff`."""
    world = local_world(example.folder, permissions=Permissions(mode="plan"))
    async with example.open("lead", world=world) as lead:
        print(await lead.say("Review change.diff, please."))
