"""The API's page for people, `/api/docs`: its OpenAPI document as plain HTML.

It takes no script and fetches nothing, so it works without the internet and under a strict policy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jinja2

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }} API</title>
<style>
:root { color-scheme: light dark; --soft: #8884; --ink: #235a89; --text: #22282e; --paper: #fff }
html { background: var(--paper); color: var(--text) } a { color: var(--ink) }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.05rem; margin: 0 }
article { border: 1px solid var(--soft); border-radius: 8px; padding: .8rem 1rem; margin: 1rem 0 }
code, pre { font: 13px/1.45 ui-monospace, monospace }
pre { overflow-x: auto; background: #8881; border-radius: 6px; padding: .6rem .8rem }
.method { display: inline-block; min-width: 3.2rem; font-weight: 650; color: var(--ink) }
@media (prefers-color-scheme: dark) { :root { --ink: #8cc2ee; --text: #e4e8ec; --paper: #14181c } }
table { border-collapse: collapse; width: 100% }
td { padding: .15rem .6rem .15rem 0; vertical-align: top }
td:first-child { white-space: nowrap } summary { cursor: pointer }
</style></head><body>
<h1>{{ title }} API <small>{{ version }}</small></h1>
<p>{{ summary }} The machine-readable form: <a href="{{ base }}/openapi.json">openapi.json</a>.</p>
<p>Faults come as <code>application/problem+json</code>. Where a token is set, send it as
<code>Authorization: Bearer …</code>.</p>
{% for call in calls %}
<article><h2><span class="method">{{ call.method }}</span> <code>{{ call.path }}</code></h2>
<div>{{ call.summary }}</div>
{% if call.parameters %}<table>
{% for one in call.parameters %}<tr><td><code>{{ one.name }}</code></td><td>in {{ one.where }}
{{ one.rule }}</td></tr>{% endfor %}</table>{% endif %}
{% if call.body %}<pre>{{ call.body }}</pre>{% endif %}
<details><summary>Answers: {{ call.statuses }}</summary>
{% if call.answer %}<pre>{{ call.answer }}</pre>{% endif %}</details></article>
{% endfor %}
<article><h2><span class="method">WS</span> <code>{{ base }}/run/{run_id}?after=</code></h2>
<div>Follow a run. The first message is its state,
<code>{"type": "state", "sequence", "items"}</code>; then one for each event,
<code>{"type": "update", "sequence", "run_item_id", "status", …}</code>; the last is
<code>{"type": "run", "status"}</code>. Come back with <code>?after=</code> the last sequence and
nothing is lost.</div></article>
<h1>Types</h1>
{% for name, schema in schemas %}<article id="{{ name }}"><details><summary>{{ name }}</summary>
<pre>{{ schema }}</pre></details></article>{% endfor %}
</body></html>
"""


def handbook(document: Mapping[str, Any], base: str) -> str:
    """The page of an OpenAPI document whose paths lie under `base`."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    calls = [
        _call(method, base + path, told)
        for path, methods in document["paths"].items()
        for method, told in methods.items()
    ]
    schemas = document.get("components", {}).get("schemas", {})
    return environment.from_string(_PAGE).render(
        title=document["info"]["title"],
        version=document["info"]["version"],
        summary=document["info"].get("summary", ""),
        base=base,
        calls=calls,
        schemas=[(name, _text(schema)) for name, schema in sorted(schemas.items())],
    )


def _call(method: str, path: str, told: Mapping[str, Any]) -> dict[str, Any]:
    answer = told["responses"].get("200") or told["responses"].get("202") or {}
    body = told.get("requestBody", {}).get("content", {}).get("application/json", {})
    return {
        "method": method.upper(),
        "path": path,
        "summary": told.get("summary", ""),
        "parameters": [
            {"name": one["name"], "where": one["in"], "rule": _brief(one["schema"])}
            for one in told.get("parameters", ())
        ],
        "body": _brief(body["schema"]) if body else "",
        "statuses": ", ".join(sorted(told["responses"])),
        "answer": "\n".join(
            f"{kind}: {_brief(content.get('schema', {}))}"
            for kind, content in answer.get("content", {}).items()
        ),
    }


def _brief(schema: Mapping[str, Any]) -> str:
    """A schema in a line: the name of its type, or what it says."""
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[-1])
    if "items" in schema:
        return f"list of {_brief(schema['items'])}"
    kept = {key: value for key, value in schema.items() if key != "title"}
    return json.dumps(kept, ensure_ascii=False)


def _text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False)
