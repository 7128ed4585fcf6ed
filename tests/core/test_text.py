"""Untrusted text is safe to show, and long lists are short."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from genlab.core.text import join_first, make_printable, map_strings

HOSTILE = st.text(alphabet=st.sampled_from(list("\x1b\x9b[]0;31mA\x07\\\n\t\r\u202e\u200b\ud800")))


@given(st.text() | HOSTILE)
@example("\x1b\x1b[31m")
def test_nothing_that_acts_on_a_terminal_is_left(text: str) -> None:
    clean = make_printable(text)
    assert not [c for c in clean if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]
    assert not set(clean) & set("\u200b\u200e\u200f\u202a\u202b\u202d\u202e\u2066\u2069\ufeff")
    assert make_printable(clean) == clean


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("user\u202etxt.exe", "usertxt.exe"),
        ("one\r\ntwo\rthree\u2028four", "one\ntwo\nthree\nfour"),
        ("x = 'é 漢 🙂'\n\treturn", "x = 'é 漢 🙂'\n\treturn"),
        ("\x1b]never ended\nnext line", "\nnext line"),
    ],
)
def test_visible_text_stays(text: str, visible: str) -> None:
    assert make_printable(text) == visible


def test_strings_are_changed_at_any_depth() -> None:
    assert map_strings({"a": ["b", 1, ("c", None)]}, str.upper) == {"A": ["B", 1, ["C", None]]}


def test_a_list_is_shortened_after_its_first_names() -> None:
    assert join_first([]) == ""
    assert join_first(["a", "b", "c"]) == "a, b, c"
    assert join_first(map(str, range(1502)), 2) == "0, 1 and 1,500 more"
