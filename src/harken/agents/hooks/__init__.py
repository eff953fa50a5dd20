"""The hooks that are built in, one file each; `agents/built_in.py` names them."""
