"""``GET /docs``: the routes of this build as a page that loads nothing from other hosts."""

import html
import json
from typing import Any, Final, cast

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from vibe_jupyter.gateway.parts import GatewayParts

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "code,pre{font-family:ui-monospace,monospace;font-size:.9em}"
    "pre{overflow:auto;padding:.75rem;border:1px solid #8888}"
    "h2{margin:2rem 0 .25rem}summary{cursor:pointer}"
)


def docs_routes(_parts: GatewayParts) -> APIRouter:
    """Create the router for the page."""
    router = APIRouter(tags=["about"])

    @router.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    async def docs(request: Request) -> HTMLResponse:  # pyright: ignore[reportUnusedFunction]
        return HTMLResponse(
            docs_page(cast("dict[str, Any]", request.app.openapi())),
            headers={"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"},
        )

    return router


def docs_page(document: dict[str, Any]) -> str:
    """Render an OpenAPI document as HTML."""
    about = cast("dict[str, str]", document["info"])
    schemas = cast("dict[str, Any]", document.get("components", {})).get("schemas", {})
    parts = [
        "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{html.escape(about['title'])}</title><style>{_STYLE}</style>",
        f"<h1>{html.escape(about['title'])} {html.escape(about['version'])}</h1>",
        "<p>The whole document is at <a href=/api-doc/openapi.json>/api-doc/openapi.json</a>.</p>",
    ]
    for path, methods in cast("dict[str, dict[str, Any]]", document["paths"]).items():
        for method, route in methods.items():
            parts += _route(f"{method.upper()} {path}", cast("dict[str, Any]", route))
    parts.append("<h2>Schemas</h2>")
    parts += [_folded(name, schema) for name, schema in cast("dict[str, Any]", schemas).items()]
    return "\n".join(parts)


def _route(heading: str, route: dict[str, Any]) -> list[str]:
    parts = [
        f"<h2><code>{html.escape(heading)}</code></h2>",
        f"<p>{html.escape(str(route.get('description', '')))}</p>",
    ]
    if "requestBody" in route:
        parts.append(_folded("Body", route["requestBody"]))
    return [*parts, _folded("Answers", route["responses"])]


def _folded(title: str, value: object) -> str:
    text = html.escape(json.dumps(value, indent=2, ensure_ascii=False))
    return f"<details><summary>{html.escape(title)}</summary><pre>{text}</pre></details>"
