"""What the compression of packs knows from the start: frequent bytes, the most frequent last.

It is part of the format: a changed byte makes every pack unreadable. Another list of words is
another form of packs (docs/formats/store.md, "Packs").
"""

ENGLISH = (
    "because could should would however therefore although through between another something "
    "different important following question answer example number people without against during "
    "before after again always where there their these those which while being having other than "
    "then them they what when will with your from have this that only some such more most very "
    "into over about also been can did does had has her him his how its just like make may much "
    "must new not now off one our out own she should so time two up use used using was way we well "
    "were who why work you are but for all any and the is in of to a . The This That It I We You "
    "If In So Let me I will I'll need to want to going to there is there are it is does not do not "
    "is not can be should be has been have been will be to be of the in the to the on the for the "
    "and the with the from the at the by the that the is the into the as a in a of a with a for a "
)
CODE = (
    "function return import class self None True False def async await const let var string int "
    "list dict error Error: warning failed passed tests test file files line lines code command "
    "output result results value values name path directory changed commit branch added removed "
    "updated created deleted read write found No such file or directory\\nTraceback (most recent "
    'call last):\\n  File \\"/src/main.py\\", line 1, in <module>\\n    for i in range(len( if not '
    'is None: else: raise ValueError(f\\" print( = [] = {} == != += => -> :\\n    \\n\\n- \\n1. ```'
    "python\\n```\\n## **Note** "
)
MESSAGES = (
    '{"data":"","kind":"","type":"other"}{"data":"","media_type":"image/png","type":"image",'
    '"url":null}{"text":"","type":"thinking"}{"arguments":"{\\"path\\": \\"\\", \\"command\\": '
    '\\"\\", \\"pattern\\": \\"\\", \\"content\\": \\"}","kind":"function","name":"read_file",'
    '"type":"tool_call"}{"content":[{"text":"","type":"text"}],"is_error":false,"type":'
    '"tool_result"}","source":{"input_tokens":,"output_tokens":,"message_id":"msg_0"},"time":"'
    '"metas":{"0":{"signature":"","meta":{"id":"","calls":[{"id":"call_toolu_01"}],"name":"",'
    '"shape":"none"},"shape":"list","tool_call_id":"'
    '{"artifact":"art-\x01000000","checkpoint":"session_end","checkpoint":"tool_call","checkpoint":'
    '"turn_boundary","created_at":"2026-0T:.000Z","format":"claude-code-v1","machine":"",'
    '"message_count":2,"parent":"ctx-\x01000000","principal":"","session_id":"","template":"",'
    '"thread_id":"","ticket_id":"tkt-","token_count":,"type":"compaction"}'
    '[{"message":"\x01000002","occurrence":{},"time":"2026-"},{"message":"\x01000004","occurrence":{}}]'
    '{"parts":["\x01000001"],"role":"system"}{"parts":["\x01000003"],"role":"tool"}'
    '{"parts":["\x01000001"],"role":"user"}{"parts":["\x01000003"],"role":"assistant"}'
    '.","type":"text"}{"text":"'
)
WORDS = (ENGLISH + CODE + MESSAGES).encode()
