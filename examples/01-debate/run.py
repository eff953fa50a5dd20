"""A motion goes to a chair, who lets two agents argue, each knowing its own side only."""

from examples.example import Example


async def play(example: Example) -> None:
    """Put one motion to the debate."""
    async with example.open("chair") as chair:
        print(await chair.say("This house would close the inner city to private cars."))
