"""Cases: those that ship are sound, and every fault of one is one line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from small_benchmark import make_case

from genlab.benchmark.case_names import slug
from genlab.benchmark.cases import CASE_FILE, load_case, load_cases, open_upright, require_consent
from genlab.benchmark.demo_cases import RECIPES, generate_demo
from genlab.benchmark.generate_cases import Plan, pair, write_case
from genlab.core.errors import GenlabError

MOST_BYTES = 3 << 20


def test_the_cases_of_the_demo_are_sound_free_and_small(root: Path) -> None:
    cases = load_cases(root / "cases")
    assert {case.case_id for case in cases} == {recipe.case_id for recipe in RECIPES}
    assert len(cases) >= 6
    assert {len(case.swaps) for case in cases} >= {1, 2}
    for case in cases:
        require_consent(case)
        assert {source.licence for source in case.sources.values()} <= {
            "MIT",
            "public domain (work of the United States government)",
        }
        assert max(case.open_template().size) <= 1024
        for name in case.avatars:
            assert case.open_avatar(name).mode == "RGB"
    files = [path for path in (root / "cases").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES


def test_no_photograph_that_ships_says_where_it_was_taken(root: Path) -> None:
    for path in (root / "cases").rglob("*.jpg"):
        with Image.open(path) as image:
            assert not image.getexif()


def test_the_digest_is_of_all_that_a_score_depends_on(tmp_path: Path) -> None:
    case = make_case(tmp_path, 1)
    text = case.folder / CASE_FILE
    text.write_text(text.read_text().replace("Noise", "Sound"))
    assert load_case(case.folder).digest == case.digest
    text.write_text(text.read_text().replace("left: 8", "left: 9"))
    assert load_case(case.folder).digest != case.digest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.replace("swaps", "swap"), "swap is not a known key; did you mean swaps?"),
        (lambda t: t.replace("version: 1", "version: 2"), "version must be 1, got 2"),
        (lambda t: t.replace("left: 8", "left: -1"), "swaps.0.region.left should be greater"),
        (lambda t: t.replace("left: 8", "left: 40"), "outside the template's 64 × 64 pixels"),
        (lambda t: t.replace("avatar: one", "avatar: two"), "swaps.0.avatar must be one of one"),
        (lambda t: t.replace("template.png", "../secret.png"), "must be a file beside it"),
        (lambda t: t.replace("template.png", "absent.png"), "absent.png is not there"),
        (
            lambda t: t.replace("consent: true", "consent: perhaps"),
            "consent should be a valid boolean",
        ),
        (lambda t: t.replace("  one: {licence", "  two: {licence"), "sources.one is missing"),
        (
            lambda t: t.replace("licence: made", "title: made", 1),
            "sources.template.licence is miss",
        ),
        (lambda t: t + "avatars: [", "not valid YAML"),
        (lambda t: "[1, 2]", "must hold keys and values"),
    ],
)
def test_a_fault_is_one_line_with_the_place(
    tmp_path: Path, change: Callable[[str], str], said: str
) -> None:
    case = make_case(tmp_path, 1)
    path = case.folder / CASE_FILE
    path.write_text(change(path.read_text()))
    with pytest.raises(GenlabError) as caught:
        load_case(case.folder)
    message = str(caught.value)
    assert said in message
    assert str(path) in message
    assert "\n" not in message


def test_images_are_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (100, 70)).save(tmp_path / "turned.jpg", exif=exif)
    assert open_upright(tmp_path / "turned.jpg").size == (70, 100)


def test_consent_names_the_line_to_change(tmp_path: Path) -> None:
    case = make_case(tmp_path, 1, consent="false")
    with pytest.raises(GenlabError, match=r"case\.yaml, line 3: .* write there: consent: true"):
        require_consent(case)


def test_no_cases_is_reported_with_the_fix(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(GenlabError, match="genlab-benchmark generate-cases"):
            load_cases(folder)


@pytest.mark.slow
def test_ones_own_photographs_are_paired_and_wait_for_consent(root: Path, tmp_path: Path) -> None:
    templates, avatars = tmp_path / "templates", tmp_path / "avatars"
    templates.mkdir()
    avatars.mkdir()
    shipped = root / "cases" / "astronaut-officer"
    exif = Image.Exif()
    exif[0x010F] = "a camera"
    with Image.open(shipped / "template.jpg") as image:
        image.save(templates / "Me at Home.jpg", exif=exif)
    Image.new("RGB", (200, 200), "green").save(templates / "nobody.png")
    os.symlink(shipped / "avatar_officer.jpg", avatars / "Gran 1.jpg")
    (avatar, one, none) = pair(templates, avatars, tmp_path / "cases")
    assert avatar.line.endswith("Gran 1.jpg: avatar gran-1")
    assert "set consent" in one.line
    assert "no face was found" in none.line
    assert (one.faulty, none.faulty) == (False, True)
    (case,) = load_cases(tmp_path / "cases")
    assert (case.case_id, list(case.avatars), case.consent) == ("me-at-home", ["gran-1"], False)
    left = case.swaps[0].region.left
    assert 150 < left < 250  # the astronaut's face
    with Image.open(case.template) as image:
        assert not image.getexif()
    text = case.folder / CASE_FILE
    text.write_text(text.read_text().replace("consent: false", "consent: true"))
    assert "left as it is" in list(pair(templates, avatars, tmp_path / "cases"))[1].line
    require_consent(load_case(case.folder))


@pytest.fixture
def photographs(root: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Folders of templates and avatars: names that make one slug, names in no Latin letters."""
    small = Image.open(root / "cases" / "astronaut-officer" / "template.jpg").resize((256, 256))
    names = ["IMG 1.png", "img-1.jpg", "img-1.png", "北京.png", "東京.png", "Zoë.png"]
    for folder, kept in (("templates", names), ("avatars", ["祖母.png", "祖父.png"])):
        (tmp_path / folder).mkdir()
        for number, name in enumerate(kept):
            image = small.copy()
            image.paste((number * 40, 0, 0), (0, 0, 20, 20))  # tells whose template it is
            image.save(tmp_path / folder / name)
    return tmp_path / "templates", tmp_path / "avatars"


@pytest.mark.slow
def test_no_photograph_is_lost_for_its_name(tmp_path: Path, photographs: tuple[Path, Path]) -> None:
    root = tmp_path / "cases"
    reported = list(pair(*photographs, root))
    assert not any(one.faulty for one in reported)
    cases = load_cases(root)
    titles = {case.case_id: case.sources["template"].title for case in cases}
    assert {titles[name] for name in ("img-1", "img-1-2", "img-1-3")} == {
        *("IMG 1.png", "img-1.jpg", "img-1.png")
    }
    assert titles["zoe"] == "Zoë.png"
    assert sum(name.startswith("photograph-") for name in titles) == 2
    assert len({next(iter(case.avatars)) for case in cases}) == 2
    # One that comes later, and before them in order, takes no other's place.
    first = {case.case_id: case.digest for case in cases}
    os.rename(photographs[0] / "Zoë.png", photographs[0] / "IMG-1.png")
    assert sum("left as it is" in one.line for one in pair(*photographs, root)) == 5
    again = {case.case_id: case.digest for case in load_cases(root)}
    assert {name: again[name] for name in first} == first
    assert set(again) - set(first) == {"img-1-4"}


@pytest.mark.slow
def test_a_fault_in_one_photograph_leaves_the_others_and_the_case_that_was_there(
    tmp_path: Path, photographs: tuple[Path, Path]
) -> None:
    root, (templates, avatars) = tmp_path / "cases", photographs
    for path in templates.iterdir():
        if path.name not in ("IMG 1.png", "Zoë.png"):
            path.unlink()
    list(pair(templates, avatars, root))
    before = load_case(root / "img-1").digest
    (templates / "IMG 1.png").write_bytes((templates / "IMG 1.png").read_bytes()[:5000])
    (root / "zoe" / "note.txt").write_text("mine")
    reported = list(pair(templates, avatars, root, force=True))
    assert [one.faulty for one in reported] == [False, False, True, False]
    assert "IMG 1.png is cut short" in reported[2].line
    assert load_case(root / "img-1").digest == before
    assert not (root / "zoe" / "note.txt").exists()  # asked for: --force
    assert sorted(path.name for path in root.iterdir()) == ["img-1", "zoe"]


def test_a_case_that_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases", 1)
    faulty = Plan("case-001", "", False, case.template, case.avatars, case.swaps, case.sources)
    with pytest.raises(GenlabError, match="title"):
        write_case(faulty, case.folder)
    assert load_case(case.folder).digest == case.digest
    assert [path.name for path in case.folder.parent.iterdir()] == ["case-001"]


@pytest.mark.parametrize(
    ("text", "name"),
    [("IMG 1", "img-1"), ("Zoë", "zoe"), ("Łódź", "lodz"), ("straße", "strasse"), ("Æ", "ae")],
)
def test_a_slug_keeps_letters(text: str, name: str) -> None:
    assert slug(text) == name


@pytest.mark.slow
def test_the_demo_is_made_of_the_photographs_that_ship(root: Path, tmp_path: Path) -> None:
    reported = list(generate_demo(tmp_path))
    assert [one.faulty for one in reported] == [False] * len(RECIPES)
    made, shipped = load_cases(tmp_path), load_cases(root / "cases")
    for one, known in zip(made, shipped, strict=True):
        assert (one.title, one.sources, one.consent) == (known.title, known.sources, True)
        for found, corrected in zip(one.swaps, known.swaps, strict=True):
            assert found.avatar == corrected.avatar
            assert abs(found.region.left - corrected.region.left) < 8
    assert all("left as it is" in one.line for one in generate_demo(root / "cases"))
