"""A hook keeps facts about the user, and reminds the agent of relevant ones."""

from examples.example import Example


async def play(example: Example) -> None:
    """Talk about three things, of which the first matters for the last."""
    async with example.open("cook", hooks=["memory"]) as cook:
        for message in (
            "By the way, my daughter cannot have nuts.",
            "What is a quick soup for two?",
            "We are three tonight, my daughter comes. A cake, please!",
        ):
            print(f"> {message}\n{await cook.say(message)}\n")
