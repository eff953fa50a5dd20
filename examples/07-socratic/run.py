"""A pupil without knowledge asks the user; a teacher steers it as a hook."""

from examples.example import Example


async def play(example: Example) -> None:
    """Explain gravity to the pupil."""
    async with example.open("teacher") as lesson:
        for message in (
            "I want to understand why things fall.",
            "Heavy things fall because the Earth pulls them more.",
            "Hm. The feather is slowed down by the air.",
            "Then without air they would fall equally fast!",
        ):
            print(f"> {message}\n{await lesson.say(message)}\n")
