"""Two images of one case with a divider between them, as a Streamlit component."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from genlab.web.components.grid import line

HEIGHT = 460

_HTML = """<div class="all"><div class="stage"><img class="a"><img class="b"><img class="t">
<div class="line"></div><span class="name left"></span><span class="name right"></span></div>
<div class="ways"><label for="cut">Divider</label><input id="cut" type="range" value="50">
<label for="over">Template over both</label><input id="over" type="range" value="0"></div></div>"""

_CSS = """:host{display:block}
.all{display:inline-block;max-width:100%;font:14px/1.4 var(--st-font);color:var(--st-text-color)}
.stage{position:relative;border-radius:8px;overflow:hidden;touch-action:pan-y;
background:var(--st-secondary-background-color)}
img{display:block;max-width:100%;max-height:HEIGHTpx;min-width:min(100%,240px);object-fit:contain;
user-select:none;-webkit-user-drag:none}
.b,.t{position:absolute;inset:0;width:100%;height:100%;max-height:none}
.t{opacity:0}
.line{position:absolute;top:0;bottom:0;width:2px;margin-left:-1px;background:#fff;
box-shadow:0 0 4px #000}
.name{position:absolute;top:8px;padding:2px 8px;border-radius:5px;background:#000c;color:#fff;
max-width:44%;box-sizing:border-box;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.left{left:8px}.right{right:8px}
.ways{display:grid;margin-top:6px}
input{width:100%;height:24px;margin:0 0 4px;accent-color:var(--st-primary-color)}""".replace(
    "HEIGHT", str(HEIGHT)
)

_JS = """export default function ({ parentElement, data }) {
  const find = (place) => parentElement.querySelector(place);
  const stage = find(".stage"), cut = find("#cut"), over = find("#over");
  for (const place of ["a", "b", "t"]) {
    const image = find("img." + place), [url, name] = data[place];
    image.hidden = !url; image.alt = name;
    if (url && image.getAttribute("src") !== url) image.src = url;
  }
  find(".left").textContent = data.a[1]; find(".right").textContent = data.b[1];
  const show = () => {
    find("img.b").style.clipPath = `inset(0 0 0 ${cut.value}%)`;
    find(".line").style.left = cut.value + "%";
    find("img.t").style.opacity = over.value / 100;
  };
  cut.oninput = over.oninput = show;
  stage.onpointermove = (event) => {
    if (event.pointerType !== "touch" && event.buttons !== 1) return;
    const box = stage.getBoundingClientRect();
    cut.value = 100 * (event.clientX - box.left) / box.width;
    show();
  };
  show();
}"""

Named = tuple[str, str]
"""A picture's address and its name."""


def show_slider(left: Named, right: Named, template: str, key: str) -> None:
    """Show two pictures one over the other, cut at a divider; template: "" where it is gone."""
    data = {"a": _fit(left), "b": _fit(right), "t": _fit((template, "template"))}
    _component()(key=key, data=data)


def _fit(named: Named) -> Sequence[str]:
    return [named[0], line(named[1], 40)]


@st.cache_resource
def _component() -> Any:
    return st.components.v2.component("genlab.divider", html=_HTML, css=_CSS, js=_JS)
