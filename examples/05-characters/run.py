"""A storyteller plays with two characters; one of them is told a secret."""

from examples.example import Example


async def play(example: Example) -> None:
    """Let two scenes happen."""
    async with example.open("storyteller") as story:
        print(
            await story.say(
                "Alice and Bob meet at the ferry. Alice alone knows that it will not leave."
            )
        )
        print(await story.say("Does Bob suspect anything? Ask him."))
