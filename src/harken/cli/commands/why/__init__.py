"""`harken why`: the message of the agent that wrote a line."""
