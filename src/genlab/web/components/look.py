"""Appearance of the pages: colours of text in two themes, style sheet, pictures of items."""

import base64
import io
from collections.abc import Iterable, Mapping
from html import escape

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from genlab.grids.palette import to_rgb

Items = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

CELL = 12  # pixels per cell of a grid with outlined cells

INKS: Mapping[str, tuple[str, str]] = {
    "ink": ("#22282e", "#e4e8ec"),
    "muted": ("#5d6770", "#a2acb6"),
    "rule": ("#d8dde2", "#3a434c"),
    "card": ("#f6f8f9", "#1d2329"),
    "good": ("#1c6a62", "#7ad0c6"),
    "warn": ("#8f4a08", "#f2b679"),
    "bad": ("#a32331", "#f5a3ab"),
    "blue": ("#2b6ca3", "#6fb0e3"),
}
"""Colours in the light and the dark theme; as text, the contrast of each is 4.5 or more."""

# Streamlit sets color-scheme on the app, so light-dark() follows Streamlit's theme.
_VARIABLES = "".join(
    f"--g-{name}:light-dark({light},{dark});" for name, (light, dark) in INKS.items()
)

STYLE = f"""<style>
.stApp{{{_VARIABLES}}}
.stMainBlockContainer{{max-width:1280px;padding:4.25rem 2rem 4rem}}
@media(max-width:640px){{.stMainBlockContainer{{padding:4rem 1rem 3rem}}}}
/* White on the dark theme's light primary colour can't be read. */
.stApp [data-testid^=stBaseButton-primary]:not(:disabled) p{{color:light-dark(#fff,#14181c)}}
/* Figures are printed on white: a card of paper, in the dark as well. */
.stImage img{{background:#fff;padding:.75rem;border:1px solid var(--g-rule);border-radius:8px;
max-width:60rem!important;box-sizing:border-box}}
@media(max-width:640px){{.stImage{{overflow-x:auto}}.stImage img{{min-width:40rem}}}}
[data-testid="stImageCaption"]{{text-align:left!important;position:sticky;left:0;
width:auto!important;max-width:min(60rem,calc(100vw - 2rem))!important}}
[data-testid="stCaptionContainer"],[data-testid="stCaptionContainer"] *,
[data-testid="stImageCaption"],[data-testid="stImageCaption"] *{{
color:var(--g-muted)!important;opacity:1!important}}
[data-testid="stMultiSelectTagsContainer"] [data-tag]{{
background:light-dark(#2b6ca3,#2f5f88)!important}}
/* Pictures of items. */
.g-pictures{{display:flex;flex-wrap:wrap;gap:.75rem;padding:.1rem 0}}
.g-picture{{margin:0;display:flex;flex-direction:column;gap:.25rem}}
.g-picture img{{image-rendering:pixelated;border-radius:3px;display:block;
outline:1px solid var(--g-rule)}}
.g-picture figcaption{{color:var(--g-muted);font-size:.82rem;line-height:1.25}}
/* Cases and images of the benchmark. */
.b-gallery{{display:grid;gap:1rem .9rem;align-items:start;
grid-template-columns:repeat(auto-fill,minmax(min(130px,45%),1fr))}}
.b-cell{{margin:0;width:100%;color:var(--g-ink);font-size:.86rem;line-height:1.3}}
.b-frame{{display:block;width:100%;aspect-ratio:1;border-radius:6px;overflow:hidden;
background:var(--g-card);outline:1px solid var(--g-rule);position:relative}}
.b-frame img{{width:100%;height:100%;object-fit:contain;display:block}}
.b-progress{{display:flex;gap:.75rem;align-items:center;flex-wrap:wrap}}
.b-progress progress{{width:16rem;accent-color:var(--st-primary-color,#2b6ca3)}}
.b-wait{{position:absolute;inset:0;display:flex;align-items:center;justify-content:center;
text-align:center;padding:.6rem;color:var(--g-muted);overflow:hidden;overflow-wrap:anywhere}}
.b-name{{display:block;margin-top:.3rem;font-weight:600;overflow-wrap:anywhere}}
.b-none{{color:var(--g-muted)}}.b-good{{color:var(--g-good)}}.b-fair{{color:var(--g-warn)}}
.b-poor{{color:var(--g-bad)}}
.b-badge summary{{cursor:pointer;font-weight:650;font-variant-numeric:tabular-nums}}
.b-badge summary:focus-visible{{outline:2px solid var(--g-blue);outline-offset:2px}}
.b-badge td{{padding:.05rem .5rem .05rem 0;border:0;font-size:.82rem;color:var(--g-ink)}}
.b-faces{{display:flex;flex-wrap:wrap;gap:.3rem;margin-top:.3rem}}
.b-faces img{{width:52px;height:52px;object-fit:cover;border-radius:5px;
outline:1px solid var(--g-rule)}}
/* Two images with a divider. */
.b-cut{{position:relative;max-width:460px}}.b-cut img{{display:block;width:100%}}
.b-cut img+img{{position:absolute;inset:0;height:100%;clip-path:inset(0 0 0 var(--cut))}}
/* What a rater looks at; the next images are fetched unseen. */
.b-look{{display:flex;flex-wrap:wrap;gap:1rem;align-items:flex-start;color:var(--g-ink)}}
.b-look figure{{margin:0;flex:1 1 180px;min-width:0}}.b-look .b-main{{flex:2 1 320px}}
.b-look figcaption{{color:var(--g-muted);font-size:.85rem;margin-bottom:.25rem;line-height:1.5rem}}
.b-look .b-main figcaption{{color:var(--g-ink);font-size:1.05rem;font-weight:600}}
.b-look img{{width:100%;height:auto;max-height:min(56vh,520px);object-fit:contain;display:block;
background:var(--g-card);border-radius:8px}}
.b-look .b-main img{{height:min(56vh,520px)}}.b-look .b-pixels img{{image-rendering:pixelated}}
.b-ahead{{position:absolute;width:1px;height:1px;overflow:hidden;opacity:0;
pointer-events:none}}
@media(max-width:640px){{.b-look{{gap:.5rem}}.b-look figure{{flex:1 1 100%}}
.b-look img{{max-height:260px}}.b-look .b-main img{{height:36vh;max-height:none}}}}
</style>"""


def pixels(item: Items) -> Image.Image:
    """Convert a grid (h, w) or an image (h, w, 1 or 3) to an RGB image."""
    rgb = to_rgb(item) if item.ndim == 2 else item
    return Image.fromarray(np.ascontiguousarray(np.broadcast_to(rgb, (*rgb.shape[:2], 3))))


def data_url(image: Image.Image, kind: str = "png") -> str:
    """Encode an image as a data URL."""
    buffer = io.BytesIO()
    image.save(buffer, kind, quality=82)
    return f"data:image/{kind};base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def picture(
    item: Items, alt: str, caption: str = "", side: int = 112, outlined: Flags | None = None
) -> str:
    """Show a grid or an image, which the browser enlarges to a width of `side` CSS pixels.

    alt: description; outlined: cells (h, w) that get a white outline, which is no colour of the
    palette.
    """
    image = pixels(item)
    if outlined is not None:
        image = image.resize((CELL * image.width, CELL * image.height), Image.Resampling.NEAREST)
        draw = ImageDraw.Draw(image)
        for top, left in (CELL * np.argwhere(outlined)).tolist():
            draw.rectangle((left, top, left + CELL - 1, top + CELL - 1), outline="white", width=2)
    height = side * item.shape[0] // item.shape[1]
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return (
        f'<figure class="g-picture" style="width:{side}px"><img alt="{escape(alt)}" width="{side}"'
        f' height="{height}" src="{data_url(image)}">{below}</figure>'
    )


def pictures(figures: Iterable[str]) -> str:
    """Arrange figures in rows of the page's width."""
    return f'<div class="g-pictures">{"".join(figures)}</div>'
