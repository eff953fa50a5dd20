"""The hooks that are built in, one file each; `register` names them."""
