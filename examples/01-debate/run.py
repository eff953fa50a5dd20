"""A chair lets two agents argue a motion; each knows only its own side."""

from examples.example import Example


async def play(example: Example) -> None:
    """Debate one motion."""
    async with example.open("chair") as chair:
        print(await chair.say("This house would close the inner city to private cars."))
