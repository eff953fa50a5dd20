"""Adapters: Harken's store under the interfaces of other agent frameworks.

`harken.adapters.langgraph` has checkpoint savers for LangGraph, `harken.adapters.openai_agents` has
sessions for the OpenAI Agents SDK. A framework is imported only by the package with its name; the
other modules read and write the files without it.

Source: docs/design/020-adapters.md.
"""
