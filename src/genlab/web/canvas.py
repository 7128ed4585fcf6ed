"""A grid to draw on, as a Streamlit component: paint with the mouse, a finger or the keyboard."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from genlab.core.errors import GenlabError
from genlab.grids.palette import ARC_PALETTE, COLOUR_NAMES
from genlab.web.sketch import from_text

Grid = npt.NDArray[np.uint8]

_HTML = """<div class="pots" role="radiogroup" aria-label="Colour to paint with"></div>
<canvas tabindex="0" role="application" aria-label="Grid to draw on. Arrow keys move, a digit
paints that colour, Delete paints black."></canvas>
<p class="place" aria-live="polite"></p>"""

_CSS = """:host{display:block}
.pots{display:flex;flex-wrap:wrap;gap:6px;margin-bottom:8px}
.pots button{width:30px;height:30px;border-radius:6px;border:2px solid transparent;cursor:pointer;
outline:1px solid var(--st-border-color);padding:0}
.pots button[aria-checked=true]{border-color:var(--st-background-color);
outline:3px solid var(--st-primary-color)}
.pots button:focus-visible,canvas:focus-visible{outline:3px solid var(--st-primary-color)}
canvas{width:100%;max-width:384px;aspect-ratio:1;display:block;
touch-action:none;border-radius:4px;cursor:crosshair}
.place{font:13px var(--st-font);color:var(--st-text-color);margin:6px 0 0;min-height:1.4em}"""

_JS = """export default function ({ parentElement, data, setStateValue }) {
  const root = parentElement, canvas = root.querySelector("canvas");
  const pots = root.querySelector(".pots"), place = root.querySelector(".place");
  const side = data.side, cell = 24, paint = canvas.getContext("2d");
  const state = root.__genlab ||= {
    rows: data.rows.map((row) => [...row]), colour: 2, at: [0, 0], seen: data.version };
  if (state.seen !== data.version) {
    state.rows = data.rows.map((row) => [...row]); state.seen = data.version;
  }
  canvas.width = canvas.height = side * cell + 1;
  const draw = () => {
    paint.fillStyle = "#3c3c3c"; paint.fillRect(0, 0, canvas.width, canvas.height);
    state.rows.forEach((row, r) => row.forEach((colour, c) => {
      paint.fillStyle = data.palette[colour];
      paint.fillRect(c * cell + 1, r * cell + 1, cell - 1, cell - 1);
    }));
    if (root.activeElement === canvas) {
      const [r, c] = state.at; paint.strokeStyle = "#fff"; paint.lineWidth = 2;
      paint.strokeRect(c * cell + 2, r * cell + 2, cell - 3, cell - 3);
    }
  };
  const say = () => {
    const [r, c] = state.at;
    place.textContent = `row ${r}, column ${c}: ${data.names[state.rows[r][c]]}`;
  };
  const send = () => setStateValue("cells", state.rows.map((row) => row.join("")).join("\\n"));
  const put = (r, c, colour) => {
    if (r < 0 || c < 0 || r >= side || c >= side) return;
    state.at = [r, c]; state.rows[r][c] = colour; draw(); say();
  };
  pots.replaceChildren(...data.palette.map((value, number) => {
    const pot = document.createElement("button");
    pot.type = "button"; pot.style.background = value; pot.setAttribute("role", "radio");
    pot.setAttribute("aria-label", `${number} ${data.names[number]}`);
    pot.title = `${number} ${data.names[number]}`;
    pot.setAttribute("aria-checked", String(number === state.colour));
    pot.onclick = () => {
      state.colour = number;
      [...pots.children].forEach((p, i) => p.setAttribute("aria-checked", String(i === number)));
    };
    return pot;
  }));
  const spot = (event) => {
    const box = canvas.getBoundingClientRect(), scale = side / box.width;
    return [Math.floor((event.clientY - box.top) * scale),
            Math.floor((event.clientX - box.left) * scale)];
  };
  let down = null;
  canvas.onpointerdown = (event) => {
    canvas.setPointerCapture(event.pointerId); canvas.focus();
    const [r, c] = spot(event);
    down = state.rows[r]?.[c] === state.colour ? 0 : state.colour; put(r, c, down);
  };
  canvas.onpointermove = (event) => { if (down !== null) put(...spot(event), down); };
  canvas.onpointerup = canvas.onpointercancel = () => {
    if (down !== null) { down = null; send(); }
  };
  canvas.onfocus = canvas.onblur = draw;
  canvas.onkeydown = (event) => {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const [r, c] = state.at, step = steps[event.key];
    if (step) {
      state.at = [Math.min(side - 1, Math.max(0, r + step[0])),
                  Math.min(side - 1, Math.max(0, c + step[1]))];
      draw(); say();
    } else if (/^[0-9]$/.test(event.key)) { put(r, c, Number(event.key)); send(); }
    else if (event.key === " ") { put(r, c, state.colour); send(); }
    else if (event.key === "Delete" || event.key === "Backspace") { put(r, c, 0); send(); }
    else return;
    event.preventDefault(); event.stopPropagation();
  };
  draw();
}"""


def draw_grid(start: Grid, key: str) -> Grid:
    """Show `start` (side, side) to be drawn on; returns what stands there now.

    It begins again where another `start` is given.
    """
    rows = start.tolist()
    result: Any = _component()(
        key=key,
        data={
            "rows": rows,
            "side": len(rows),
            "version": json.dumps(rows),
            "palette": [f"rgb{colour}" for colour in ARC_PALETTE],
            "names": list(COLOUR_NAMES),
        },
        on_cells_change=lambda: None,
    )
    # A browser sends what it likes.
    try:
        drawn = from_text(str(result.cells)) if result.cells else start
    except GenlabError:
        return start
    return drawn if drawn.shape == start.shape else start


@st.cache_resource
def _component() -> Any:
    return st.components.v2.component("genlab.canvas", html=_HTML, css=_CSS, js=_JS)
