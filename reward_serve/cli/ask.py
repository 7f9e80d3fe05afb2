"""``reward-serve ask``: the score of one response, or of a conversation."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from reward_serve.cli.console import App, Url, client_for, printable
from reward_serve.client.transport import ServiceUnavailableError, with_id
from reward_serve.schema import DEFAULT_TIMEOUT_S, ScoreRequest


def ask(
    question: Annotated[
        str | None, typer.Argument(help="The prompt; '' if the template shows none.")
    ] = None,
    response: Annotated[str | None, typer.Argument(help="The response to score.")] = None,
    messages: Annotated[
        Path | None,
        typer.Option(
            help="Score a conversation instead: a JSON file with a list of messages, or an object "
            "with messages and other fields of a request, such as tools and reference."
        ),
    ] = None,
    turns: Annotated[
        bool, typer.Option("--turns", help="Score each assistant turn too, and print them.")
    ] = False,
    reference: Annotated[
        list[str] | None, typer.Option(help="Gold answer; repeat the option for several.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Name of the reward model.")] = None,
    template: Annotated[str | None, typer.Option(help="Name of the judging template.")] = None,
    url: Url = None,
    app: App = None,
    timeout_s: Annotated[
        float | None,
        typer.Option(min=0.1, help=f"Deadline, in seconds; default {DEFAULT_TIMEOUT_S:g}."),
    ] = None,
) -> None:
    """Score one response or conversation with a service; exit 1 if it has no score."""
    if (response is None) is (messages is None) or (messages and question is not None):
        raise typer.BadParameter("give QUESTION and RESPONSE, or --messages FILE instead of them")
    given: dict[str, Any] = {"question": question, "reference": reference, "turns": turns}
    given |= {"model": model, "template": template, "timeout_s": timeout_s}
    asked = _request(messages) if messages else {"response": response}
    asked = with_id(asked | {name: value for name, value in given.items() if value})
    try:
        (result,) = asyncio.run(client_for(url, app).ascore_batch([asked]))
    except ServiceUnavailableError as error:
        typer.echo(printable(str(error)), err=True)
        raise typer.Exit(1) from None
    for name in ("score", "status", "source", "reason"):
        if (value := getattr(result, name)) is not None:
            typer.echo(printable(f"{name}: {value}"))
    parts = result.components or {}
    conversation = ScoreRequest.model_validate(asked).conversation if turns and parts else []
    for number, turn in enumerate((t for t in conversation if t.role == "assistant"), 1):
        part = parts[f"turn_{number}"]
        verdict = f"{part.status}: {part.reason}" if part.score is None else f"{part.score:g}"
        text = f"turn_{number}: {verdict}; {' '.join(turn.shown.split())[:80]!r}"
        typer.echo(printable(text))
    if result.score is None:
        raise typer.Exit(1)


def _request(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{file}: cannot be read as JSON: {error}") from None
    if not isinstance(content, list | dict):
        raise typer.BadParameter(f"{file}: must be a list of messages, or an object with them")
    return {"messages": content} if isinstance(content, list) else content
