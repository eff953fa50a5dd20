"""An agent that likes helpers, under a hook that approves each of them."""

from examples.example import Example


async def play(example: Example) -> None:
    """Ask for something that invites one helper too many."""
    async with example.open("researcher", hooks=["approver"]) as researcher:
        print(await researcher.say("From Kiel to Oslo: ferry, train, bus or plane?"))
