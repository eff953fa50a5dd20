"""A session request by request, in a terminal or as text: what `harken replay` shows."""
