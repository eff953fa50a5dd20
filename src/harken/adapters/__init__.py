"""Adapters: Harken's store under the interfaces of other agent frameworks.

`langgraph` has checkpoint savers for LangGraph, `openai_agents` sessions for the OpenAI Agents SDK,
`pydantic_ai` the message history and the steps of pydantic-ai, `claude_agent_sdk` a session store
for the Claude Agent SDK, and `google_adk` a session service for Google's ADK. A framework is
imported only by the package with its name; the other modules read and write the files without it.

Source: docs/design/020-adapters.md.
"""
