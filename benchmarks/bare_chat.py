"""The reference of a chat: the vendor's SDK in a loop that reads a line and prints the answer.

`python -m benchmarks.bare_chat URL BODY.json`; the body is that of a request of Harken's, and the
same is sent with each line in place of its last message.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(url: str, file: str) -> None:
    """Talk until the end of the input."""
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="none")
    body: dict[str, Any] = json.loads(Path(file).read_text())
    *earlier, _ = body.pop("messages")
    sys.stdout.write("ready> ")
    sys.stdout.flush()
    for line in sys.stdin:
        messages = [*earlier, {"role": "user", "content": line.strip()}]
        for event in client.messages.create(**body, messages=messages):
            if event.type == "content_block_delta":
                sys.stdout.write(event.delta.text)
                sys.stdout.flush()
        sys.stdout.write("\nready> ")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
