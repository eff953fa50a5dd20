"""An agent that creates helpers, with a hook that approves each of them."""

from examples.example import Example


async def play(example: Example) -> None:
    """Ask a question for which the agent creates one helper too many."""
    async with example.open("researcher", hooks=["approver"]) as researcher:
        print(await researcher.say("From Kiel to Oslo: ferry, train, bus or plane?"))
