"""A hook remembers what a person says about themselves, and reminds the agent when it matters."""

from examples.example import Example


async def play(example: Example) -> None:
    """Talk about three things, of which the first matters for the last."""
    async with example.open("cook", hooks=["memory"]) as cook:
        for said in (
            "By the way, my daughter cannot have nuts.",
            "What is a quick soup for two?",
            "We are three tonight, my daughter comes. A cake, please!",
        ):
            print(f"> {said}\n{await cook.say(said)}\n")
