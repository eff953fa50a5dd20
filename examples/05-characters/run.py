"""A storyteller has two characters, and tells one of them a secret."""

from examples.example import Example


async def play(example: Example) -> None:
    """Play two scenes."""
    async with example.open("storyteller") as story:
        print(
            await story.say(
                "Alice and Bob meet at the ferry. Alice alone knows that it will not leave."
            )
        )
        print(await story.say("Does Bob suspect anything? Ask him."))
