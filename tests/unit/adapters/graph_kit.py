"""A graph with an agent and a tool, whose answers are fixed."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph


def _agent(state: MessagesState) -> dict[str, Any]:
    last = state["messages"][-1]
    if isinstance(last, HumanMessage) and "weather" in str(last.content):
        call = {"name": "weather", "args": {"city": "Rome"}, "id": "call_1"}
        return {"messages": [AIMessage("Let me look.", tool_calls=[call])]}
    return {"messages": [AIMessage(f"echo {last.content}")]}


def _tools(state: MessagesState) -> dict[str, Any]:
    return {"messages": [ToolMessage("sunny", tool_call_id="call_1")]}


def _choose(state: MessagesState) -> str:
    last = state["messages"][-1]
    return "tools" if isinstance(last, AIMessage) and last.tool_calls else END


def build_graph() -> StateGraph[Any, Any, Any, Any]:
    builder: Any = StateGraph(MessagesState)
    builder.add_node("agent", _agent)
    builder.add_node("tools", _tools)
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", _choose, ["tools", END])
    builder.add_edge("tools", "agent")
    return builder  # type: ignore[no-any-return]


def say(graph: Any, text: str, config: Any) -> list[AnyMessage]:
    result: list[AnyMessage] = graph.invoke({"messages": [HumanMessage(text)]}, config)["messages"]
    return result
