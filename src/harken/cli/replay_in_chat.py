"""`/replay` in a chat: this session, or a past one, request by request.

In a terminal `harken replay` has it meanwhile, and keys move; else the steps are printed. It stands
apart from the other slash commands, since what it shows is drawn with the screen's own pieces, and
the screen knows all slash commands.
"""

from __future__ import annotations
