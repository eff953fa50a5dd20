"""The texts that tool calls wrote into files. Pure: nothing here opens a file."""
