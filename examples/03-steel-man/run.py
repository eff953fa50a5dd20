"""An agent that is about to disagree is sent back to make the other side's case first."""

from examples.example import Example


async def play(example: Example) -> None:
    """State something that invites disagreement."""
    async with example.open("colleague", hooks=["on-your-toes"]) as colleague:
        print(await colleague.say("We should rewrite our 200-line bash deploy script in Rust."))
