"""A fixed cast and a loop in code: the program directs agents by their methods."""

from examples.example import Example

MAX_ROUNDS = 4


async def play(example: Example) -> None:
    """Let two critics discuss a sentence, until they agree or the rounds are used up."""
    async with example.open("director") as talk:
        director, cast = talk.primary, ["editor", "reader"]
        for name in cast:
            await director.task(name, f"template:{name}")
        prompt = "Shall the novel begin with 'It was a dark and stormy night'?"
        for _ in range(MAX_ROUNDS):
            replies = await director.discuss(prompt, speakers=cast)
            if all("AGREED" in reply.answer for reply in replies):
                break
            prompt = "Answer each other. Write AGREED if you agree."
        _, minutes = await director.task("clerk", "template:clerk", prompt=replies[0].answer)
        print(minutes)
