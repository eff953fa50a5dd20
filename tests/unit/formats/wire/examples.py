"""One request of each protocol with many of its members: path and body."""

from __future__ import annotations

from typing import Any

MARK = {"type": "ephemeral"}
BLOCK = {"type": "text", "text": "Hi", "cache_control": MARK}
PNG = "data:image/png;base64,aGk="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
CALLED = {"name": "look", "arguments": '{"at": 1}'}
FUNCTION = {"id": "c1", "type": "function", "function": CALLED}
EXAMPLES: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic-messages": (
        "/v1/messages",
        {
            "model": "m",
            "system": [{"type": "text", "text": "You are Jack."}, BLOCK],
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "user", "content": [BLOCK, IMAGE]},
                {"role": "system", "content": [BLOCK], "output_config": {}},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                        {"type": "text", "text": "I look.", "citations": [{"a": 1}]},
                        {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}},
                        {"type": "server_tool_use", "id": "s1", "name": "s", "input": {}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t1", "content": [BLOCK, IMAGE]},
                        {
                            "type": "tool_result",
                            "tool_use_id": "t2",
                            "content": "x",
                            "is_error": True,
                        },
                        BLOCK,
                    ],
                },
            ],
            "tools": [{"name": "look", "input_schema": {}, "cache_control": MARK}],
            "max_tokens": 5,
        },
    ),
    "openai-chat": (
        "/v1/chat/completions",
        {
            "model": "m",
            "messages": [
                {"role": "developer", "content": "You are Jack."},
                {
                    "role": "user",
                    "content": [BLOCK, {"type": "image_url", "image_url": {"url": PNG}}],
                },
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [FUNCTION],
                    "reasoning_content": "Hm.",
                },
                {"role": "assistant", "content": "Hi", "reasoning": "Hm.", "refusal": None},
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": "c2", "type": "custom", "custom": {"name": "f", "input": "x"}}
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "[error]: x"},
            ],
            "tools": [
                {"type": "function", "function": {"name": "look", "parameters": {}, "strict": True}}
            ],
            "stream": True,
        },
    ),
    "openai-responses": (
        "/v1/responses",
        {
            "model": "m",
            "instructions": "You are Jack.",
            "input": [
                {"role": "user", "content": "Hi"},
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "developer",
                    "content": [{"type": "input_text", "text": "Hi"}],
                },
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": "Hm."}],
                    "content": None,
                    "encrypted_content": "x",
                },
                {
                    "type": "message",
                    "id": "msg_2",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
                },
                {
                    "type": "function_call",
                    "id": "fc_1",
                    "name": "look",
                    "arguments": "{}",
                    "call_id": "c1",
                },
                {"type": "custom_tool_call", "name": "look", "input": "x", "call_id": "c2"},
                {"type": "function_call_output", "call_id": "c1", "output": "x"},
                {
                    "type": "function_call_output",
                    "call_id": "c1",
                    "output": [{"type": "input_image", "image_url": PNG}],
                },
                {"type": "computer_call_output", "call_id": "c3", "output": {"type": "x"}},
                {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
                {"type": "item_reference", "id": "msg_0"},
            ],
            "tools": [
                {"type": "function", "name": "look", "parameters": {}},
                {"type": "web_search"},
            ],
        },
    ),
    "gemini": (
        "/v1beta/models/m:streamGenerateContent",
        {
            "systemInstruction": {"role": "user", "parts": [{"text": "You are Jack."}]},
            "contents": [
                {
                    "role": "user",
                    "parts": [
                        {"text": "Hi"},
                        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                    ],
                },
                {
                    "role": "model",
                    "parts": [
                        {"text": "Hm.", "thought": True},
                        {"text": "I look."},
                        {
                            "functionCall": {"name": "look", "args": {"at": 1}},
                            "thoughtSignature": "x",
                        },
                    ],
                },
                {
                    "role": "user",
                    "parts": [
                        {
                            "functionResponse": {
                                "id": "c1",
                                "name": "look",
                                "response": {"output": "x"},
                            }
                        },
                        {"functionResponse": {"name": "look", "response": {"result": 1}}},
                    ],
                },
                {"parts": [{"fileData": {"fileUri": "x"}}]},
            ],
            "tools": [
                {"functionDeclarations": [{"name": "look", "parametersJsonSchema": {}}]},
                {"googleSearch": {}},
            ],
            "generationConfig": {"temperature": 1},
        },
    ),
    "messages-v1": (
        "/messages-v1",
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "You are Jack."},
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "Hi"}, {"type": "call", "id": "c1"}],
                    "tool_calls": [FUNCTION],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "x", "is_error": True},
            ],
            "tools": [{"name": "look", "parameters": {}}],
            "parameters": {"temperature": 0.5},
        },
    ),
}
