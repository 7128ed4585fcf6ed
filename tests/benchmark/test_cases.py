"""Cases: the shipped ones are valid, and every fault of a case is an error of one line."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from refusals import refused
from small_benchmark import make_case
from typer.testing import CliRunner

from genlab.benchmark.cases import CASE_FILE, load_case, load_cases, split_by_consent
from genlab.benchmark.cases.files import delete_case, write_case
from genlab.benchmark.cases.generate import copy_shipped_cases, generate_cases
from genlab.benchmark.cases.photographs import read_photograph
from genlab.benchmark.cli import app
from genlab.core.errors import GenlabError

Places = tuple[Path, Path, Path]
MOST_BYTES = 3 << 20


def test_the_cases_of_the_demo_are_sound_free_and_small(root: Path) -> None:
    cases = load_cases(root / "cases")
    assert len(cases) == 7
    assert {len(case.swaps) for case in cases} >= {1, 2}
    for case in cases:
        assert case.may_run
        assert case.consent is None  # nobody asked the persons shown
        assert all("not documented" in source.consent for source in case.sources.values())
        assert {source.licence for source in case.sources.values()} <= {
            "MIT",
            "public domain (work of the United States government)",
        }
        assert max(case.open_template().size) <= 1024
    files = [path for path in (root / "cases").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    for path in files:
        if path.suffix == ".jpg":
            with Image.open(path) as image:
                assert not image.getexif()  # nor where it was taken


def test_the_digest_is_of_all_that_a_score_depends_on(tmp_path: Path) -> None:
    case = make_case(tmp_path, 1)
    text = case.folder / CASE_FILE
    digest = case.digest
    text.write_text(text.read_text().replace("Noise", "Sound"))
    assert load_case(case.folder).digest == digest
    text.write_text(text.read_text().replace("left: 8", "left: 9"))
    moved = load_case(case.folder).digest
    text.write_text(text.read_text() + "ideal: avatar_one.png\n")
    assert len({digest, moved, load_case(case.folder).digest}) == 3


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("swaps", "swap", "swap"),
        ("version: 1", "version: 2", "version"),
        ("left: 8", "left: 40", "swaps.0.region"),
        ("avatar: one", "avatar: two", "swaps.0.avatar"),
        ("  one: avatar", "  template: avatar", "avatars.template"),
        ("template.png", "../secret.png", "template"),
        ("template.png", "absent.png", "absent.png"),
        ("  one: {licence", "  two: {licence", "sources.one"),
        ("sources:", "sources:\n  two: {licence: free}", "sources.two"),
    ],
)
def test_a_fault_is_one_line_with_its_place(tmp_path: Path, old: str, new: str, place: str) -> None:
    case = make_case(tmp_path, 1)
    path = case.folder / CASE_FILE
    path.write_text(path.read_text().replace(old, new))
    with refused(case.folder, place):
        load_case(case.folder)


@pytest.mark.parametrize("fault", ["text", "truncated", "tiny", "huge"])
def test_a_faulty_image_is_named(tmp_path: Path, fault: str) -> None:
    case = make_case(tmp_path, 1)
    if fault in ("tiny", "huge"):
        side = 8 if fault == "tiny" else 7100
        Image.new("1", (side, side)).save(case.template)
    else:
        data = case.template.read_bytes()
        case.template.write_bytes(b"no image" if fault == "text" else data[:400])
    with refused(case.template):
        load_case(case.folder)
    with refused(case.template):
        case.open_template()


def test_images_are_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (100, 70)).save(tmp_path / "turned.jpg", exif=exif)
    for source in (tmp_path / "turned.jpg", (tmp_path / "turned.jpg").read_bytes()):
        image = read_photograph(source)
        assert image.size == (70, 100)
        assert not image.getexif()


def test_grey_of_16_bits_keeps_its_tones(tmp_path: Path) -> None:
    tones = np.linspace(0, 65535, 64 * 64).reshape(64, 64)
    Image.fromarray(tones.astype(np.uint16)).save(tmp_path / "grey.png")
    pixels = np.asarray(read_photograph(tmp_path / "grey.png"))
    assert np.abs(pixels - tones[..., None] / 257).max() <= 1


def test_a_case_without_consent_is_skipped_with_a_line(tmp_path: Path) -> None:
    make_case(tmp_path, 1, consent="false")
    make_case(tmp_path, 2)
    cases, [line] = split_by_consent(load_cases(tmp_path))
    assert [case.case_id for case in cases] == ["case-002"]
    assert "case-001/case.yaml" in line


def test_a_basis_stands_in_the_place_of_consent(tmp_path: Path) -> None:
    case = make_case(tmp_path, 1)
    text = (case.folder / CASE_FILE).read_text()
    (case.folder / CASE_FILE).write_text(text.replace("consent: true", "basis: public domain"))
    public = load_case(case.folder)
    assert (public.consent, public.may_run, public.digest) == (None, True, case.digest)
    assert "public domain" in public.permission
    copy = write_case(tmp_path / "copy", **dict(public))
    assert (copy.consent, copy.basis) == (None, "public domain")
    without_consent = write_case(
        tmp_path / "asked", **{**dict(public), "basis": "", "consent": False}
    )
    assert split_by_consent([copy, without_consent])[0] == [copy]
    for fault in ("", "consent: true\nbasis: public domain", "consent: false\nbasis: mine"):
        (case.folder / CASE_FILE).write_text(text.replace("consent: true", fault))
        with refused(case.folder, "consent"):
            load_case(case.folder)


def test_private_cases_are_listed_copied_and_deleted_to_a_bin(tmp_path: Path) -> None:
    shipped = make_case(tmp_path, 1)
    private = write_case(tmp_path / "private" / "mine", **dict(shipped))
    copy = write_case(tmp_path / "private" / "copy", **dict(private))
    assert [case.case_id for case in load_cases(tmp_path)] == ["case-001", "copy", "mine"]
    assert copy.digest == private.digest
    deleted = delete_case(copy)
    assert load_case(deleted.rename(tmp_path / "back")).digest == private.digest
    with refused(shipped.case_id):
        delete_case(shipped)
    write_case(tmp_path / "private" / "case-001", **dict(shipped))
    with refused("case-001", "private/case-001"):
        load_cases(tmp_path)


def test_a_folder_without_cases_is_reported(tmp_path: Path) -> None:
    with refused(tmp_path):
        load_cases(tmp_path)
    make_case(tmp_path, 1).folder.rename(tmp_path / "No Name")
    with refused("No Name"):
        load_cases(tmp_path)


def test_every_faulty_case_is_named(tmp_path: Path) -> None:
    paths = [make_case(tmp_path, number).folder / CASE_FILE for number in range(4)]
    for path, old, new in ((paths[0], ": true", ": perhaps"), (paths[2], "1", "[")):
        path.write_text(path.read_text().replace(old, new, 1))
    with refused("case-000/", "consent", "case-002"):
        load_cases(tmp_path)
    chosen = load_cases(tmp_path, ["case-003", "case-001"])
    assert [case.case_id for case in chosen] == ["case-003", "case-001"]


@pytest.fixture
def folders(root: Path, tmp_path: Path) -> Places:
    """Paths of templates, avatars and cases; file names share a slug or have no Latin letters."""
    small = Image.open(root / "cases" / "astronaut-officer" / "template.jpg").resize((256, 256))
    exif = Image.Exif()
    exif[0x010F] = "a camera"
    names = ["IMG 1.png", "img-1.jpg", "北京.png", "Zoë.png"]
    for folder, file_names in (("templates", names), ("avatars", ["祖母.png", "祖父.png"])):
        (tmp_path / folder).mkdir()
        for number, name in enumerate(file_names):
            image = small.copy()
            image.paste((number * 40, 0, 0), (0, 0, 20, 20))  # tells whose template it is
            image.save(tmp_path / folder / name, exif=exif)
    return tmp_path / "templates", tmp_path / "avatars", tmp_path / "cases"


@pytest.mark.slow
def test_each_photograph_becomes_a_case_that_waits_for_consent(folders: Places) -> None:
    assert all(isinstance(line, str) for line in generate_cases(*folders))
    cases = load_cases(folders[2])
    for case in cases:
        assert not case.consent
        assert 75 < case.swaps[0].region.left < 125  # the astronaut's face
        with Image.open(case.template) as image:
            assert not image.getexif()
    titles = {case.case_id: case.sources["template"].title for case in cases}
    assert {titles[name] for name in ("img-1", "img-1-2")} == {"IMG 1.png", "img-1.jpg"}
    assert titles["zoe"] == "Zoë.png"
    assert sum(name.startswith("photograph-") for name in titles) == 1
    assert len({next(iter(case.avatars)) for case in cases}) == 2
    again = map(str, generate_cases(*folders))
    assert all("exists" in line or "avatar" in line for line in again)


@pytest.mark.slow
def test_a_file_of_pairs_says_who_replaces_whom(folders: Places) -> None:
    pairs = folders[2].with_name("pairs.csv")
    pairs.write_text("template,face,avatar\nZoë.png,1,祖父.png\nIMG 1.png,2,祖父.png\n")
    lines = list(generate_cases(*folders, pairs=pairs, consent=True))
    [case] = load_cases(folders[2])
    assert (case.case_id, case.consent) == ("zoe", True)
    assert any("face 2 of 1" in str(line) for line in lines)
    pairs.write_text("template,avatar\n")
    with refused("line 1"):
        list(generate_cases(*folders, pairs=pairs))


@pytest.mark.slow
def test_a_faulty_photograph_leaves_the_others_and_what_was_there(folders: Places) -> None:
    templates, avatars, root = folders
    Image.new("RGB", (200, 200), "green").save(avatars / "nobody.png")
    for name in ("img-1.jpg", "北京.png"):
        (templates / name).unlink()
    list(generate_cases(*folders))
    before = load_case(root / "img-1").digest
    (templates / "IMG 1.png").write_bytes((templates / "IMG 1.png").read_bytes()[:5000])
    (root / "zoe" / "note.txt").write_text("mine")
    options = [f"--templates={templates}", f"--avatars={avatars}", f"--cases={root}"]
    done = CliRunner().invoke(app, ["generate-cases", *options, "--force"])
    assert isinstance(done.exception, GenlabError)
    assert all(f"{name}.png" in done.output for name in ("nobody", "IMG 1"))
    assert load_case(root / "img-1").digest == before
    assert not (root / "zoe" / "note.txt").exists()  # --force wrote the case again
    assert sorted(path.name for path in root.iterdir()) == ["img-1", "zoe"]


def test_a_case_that_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases", 1)
    with pytest.raises(GenlabError):
        write_case(case.folder, **{**dict(case), "title": ""})
    assert load_case(case.folder).digest == case.digest
    assert [path.name for path in case.folder.parent.iterdir()] == ["case-001"]


def test_a_new_title_leaves_the_photographs_as_they_are(tmp_path: Path) -> None:
    case = make_case(tmp_path, 1)
    before = case.digest
    saved = write_case(case.folder, **{**dict(case), "title": "Another"})
    assert (saved.title, saved.template.name, saved.digest) == ("Another", "template.png", before)


def test_a_folder_that_is_no_case_is_not_replaced(tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases", 1)
    note = tmp_path / "notes" / "note.txt"
    note.parent.mkdir()
    note.write_text("mine")
    with refused(note.parent):
        write_case(note.parent, **dict(case))
    assert note.read_text() == "mine"


def test_the_demo_is_made_of_the_cases_that_ship(root: Path, tmp_path: Path) -> None:
    assert len(list(copy_shipped_cases(tmp_path))) == 7
    copies = load_cases(tmp_path)
    shipped = load_cases(root / "cases")
    for copied, original in zip(copies, shipped, strict=True):
        assert copied.title == original.title
        assert copied.sources == original.sources
        assert copied.basis == original.basis
        assert copied.digest == original.digest
    assert all("kept as it is" in str(line) for line in copy_shipped_cases(root / "cases"))
