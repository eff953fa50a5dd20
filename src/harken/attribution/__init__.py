"""Attribution: from a line of a file to the message of the agent that wrote it."""
