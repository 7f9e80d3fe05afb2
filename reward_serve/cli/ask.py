"""``reward-serve ask``: the score of one response."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from reward_serve.cli.console import App, Url, client_for
from reward_serve.client.transport import ServiceUnavailableError, with_id
from reward_serve.schema import DEFAULT_TIMEOUT_S


def ask(
    question: Annotated[str, typer.Argument(help="The prompt; '' if the template shows none.")],
    response: Annotated[str, typer.Argument(help="The response to score.")],
    reference: Annotated[
        list[str] | None, typer.Option(help="Gold answer; repeat the option for several.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Name of the reward model.")] = None,
    template: Annotated[str | None, typer.Option(help="Name of the judging template.")] = None,
    url: Url = None,
    app: App = None,
    timeout_s: Annotated[
        float, typer.Option(min=0.1, help="Deadline, in seconds.")
    ] = DEFAULT_TIMEOUT_S,
) -> None:
    """Score one response with a service; exit 1 if it has no score."""
    given = {"question": question, "reference": reference, "model": model, "template": template}
    request: dict[str, Any] = {name: value for name, value in given.items() if value}
    asked = with_id({**request, "response": response, "timeout_s": timeout_s})
    try:
        (result,) = asyncio.run(client_for(url, app).ascore_batch([asked]))
    except ServiceUnavailableError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    for name in ("score", "status", "source", "reason"):
        if (value := getattr(result, name)) is not None:
            typer.echo(f"{name}: {value}")
    if result.score is None:
        raise typer.Exit(1)
