"""A hook creates another hook from a repeated complaint of the user."""

from examples.example import Example


async def play(example: Example) -> None:
    """Complain twice; the new hook rewrites the third answer."""
    async with example.open("helper", hooks=["trainer"]) as helper:
        for message in (
            "When does the museum open?",
            "Please, no exclamation marks. And how long?",
            "Again: no exclamation marks! What does it cost?",
        ):
            print(f"> {message}\n{await helper.say(message)}\n")
