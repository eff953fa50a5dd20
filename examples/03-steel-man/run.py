"""A hook denies a disagreement until an agent has argued the other side."""

from examples.example import Example


async def play(example: Example) -> None:
    """State an opinion that the agent disagrees with."""
    async with example.open("colleague", hooks=["on-your-toes"]) as colleague:
        print(await colleague.say("We should rewrite our 200-line bash deploy script in Rust."))
