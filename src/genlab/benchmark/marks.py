"""The marks of a made picture: text in its PNG, XMP in its WebP within a report.

`synthetic: yes`, run, tool, case, date and model. Not protected: whoever wants can remove them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from PIL import Image

from genlab.benchmark.store.schema import Item

SYNTHETIC = {"synthetic": "yes"}
# The IPTC's word for a composite with synthetic elements.
SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/compositeSynthetic"
_XMP = """\
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF
 xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about=""
 xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/"
 xmlns:dc="http://purl.org/dc/elements/1.1/"
 Iptc4xmpExt:DigitalSourceType={source}><dc:description><rdf:Alt>\
<rdf:li xml:lang="x-default">{words}</rdf:li></rdf:Alt></dc:description>\
</rdf:Description></rdf:RDF></x:xmpmeta>"""


def marks_of(item: Item, created: str) -> dict[str, str]:
    """What an item's PNG says of itself. created: when its run began, ISO 8601."""
    marks = {"run": item.run_id, "tool": item.tool_id, "case": item.case_id}
    return {**marks, "date": created[:10]}


def marks_in(path: Path) -> dict[str, str]:
    """The marks of a PNG that was made here; that it is synthetic, where it has lost the others."""
    with Image.open(path, formats=("PNG",)) as image:
        image.load()
        return {**SYNTHETIC, **getattr(image, "text", {})}


def xmp(marks: Mapping[str, str]) -> bytes:
    """The marks as XMP: `synthetic: yes; run: ...` as the description, and IPTC's source type."""
    words = "; ".join(f"{name}: {value}" for name, value in marks.items())
    return _XMP.format(source=quoteattr(SOURCE_TYPE), words=escape(words)).encode()
