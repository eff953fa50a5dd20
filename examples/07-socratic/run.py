"""A teacher lets a pupil that knows nothing ask the user, and steers it from above."""

from examples.example import Example


async def play(example: Example) -> None:
    """Explain gravity to somebody who keeps asking."""
    async with example.open("teacher") as lesson:
        for said in (
            "I want to understand why things fall.",
            "Heavy things fall because the Earth pulls them more.",
            "Hm. The feather is slowed down by the air.",
            "Then without air they would fall equally fast!",
        ):
            print(f"> {said}\n{await lesson.say(said)}\n")
