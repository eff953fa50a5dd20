"""A user complains about the same thing again and again, and a hook makes a hook of it."""

from examples.example import Example


async def play(example: Example) -> None:
    """Complain twice, and see what becomes of the third answer."""
    async with example.open("helper", hooks=["trainer"]) as helper:
        for said in (
            "When does the museum open?",
            "Please, no exclamation marks. And how long?",
            "Again: no exclamation marks! What does it cost?",
        ):
            print(f"> {said}\n{await helper.say(said)}\n")
