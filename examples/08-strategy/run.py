"""A strategist sets goals, and a tactician acts on them later."""

from examples.example import Example


async def play(example: Example) -> None:
    """Play two days of a small shop."""
    async with example.open("owner") as owner:
        for day in (
            "Monday: rain, few people in the street. What do we do today?",
            "Tuesday: sun, and the shop next door sells ice cream at half price. And today?",
        ):
            print(f"> {day}\n{await owner.say(day)}\n")
