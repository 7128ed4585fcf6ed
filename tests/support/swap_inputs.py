"""Inputs that people bring and that were once refused or misread, each with siblings of its kind.

A sibling is a function of an empty folder that raises where the input does not behave as expected.
`KINDS` has them by the kind; tests run each, and `swap.inputs` counts those that behave.
"""

import os
import random
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from refusals import refused

from genlab.agent.evaluator.datasets import load_data
from genlab.benchmark.cases import load_case, load_cases
from genlab.benchmark.cases.files import write_case
from genlab.benchmark.cases.generate import generate_cases
from genlab.benchmark.plugins.registry import load_tools
from genlab.core.params.sections import SourceParams
from genlab.core.paths import resolve_path
from genlab.datasets.readers.opening import read_pictures
from genlab.llm import embedded
from genlab.web.problems import Refusal
from genlab.web.security import Access

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "cases/astronaut-officer"
TOKEN = "a-token-that-nobody-guesses"
PUBLIC = "lab.example.org"
HEADER = "template,face,avatar\n"
UMLAUT = "Müller.jpg"
LATIN = os.fsdecode("café.jpg".encode("latin-1"))

Sibling = Callable[[Path], None]
KINDS: dict[str, list[Sibling]] = {}


def sibling(kind: str) -> Callable[[Sibling], Sibling]:
    """Add a function to a kind of input."""

    def add(function: Sibling) -> Sibling:
        KINDS.setdefault(kind, []).append(function)
        return function

    return add


# photographs and their names


@cache
def photograph(name: str) -> bytes:
    """A shipped photograph at 400 pixels, which is soon searched for faces, as JPEG."""
    image = Image.open(SHIPPED / name)
    image.thumbnail((400, 400))
    buffer = BytesIO()
    image.save(buffer, "JPEG")
    return buffer.getvalue()


def write_photographs(folder: Path, template: str = "one.jpg", avatar: str = "ann.jpg") -> None:
    """Make folders t and a, with a photograph in each."""
    for name, file, source in (
        ("t", template, "template.jpg"),
        ("a", avatar, "avatar_officer.jpg"),
    ):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / file).write_bytes(photograph(source))


def make_cases(folder: Path, pairs: str | bytes = "") -> list[str]:
    """The lines of generate-cases over the folders t and a; pairs: content of the CSV file."""
    file = folder / "p.csv"
    if pairs:
        file.write_bytes(pairs if isinstance(pairs, bytes) else (HEADER + pairs).encode())
    lines = generate_cases(
        folder / "t", folder / "a", folder / "out", pairs=file if pairs else None, consent=True
    )
    return [str(line) for line in lines]


def made(folder: Path) -> list[str]:
    """Titles of the cases that were made."""
    return [case.title for case in load_cases(folder / "out")]


def decomposed(text: str) -> str:
    """Text as a Mac stores it."""
    return unicodedata.normalize("NFD", text)


NAMES = "decomposed_names_do_not_match"


@sibling(NAMES)
def decomposed_files_match_composed_pairs(folder: Path) -> None:
    write_photographs(folder, decomposed(UMLAUT), decomposed("Zoë.jpg"))
    make_cases(folder, f"{UMLAUT},1,Zoë.jpg\n")
    assert made(folder) == ["Müller"]


@sibling(NAMES)
def composed_files_match_decomposed_pairs(folder: Path) -> None:
    write_photographs(folder, UMLAUT, "Zoë.jpg")
    make_cases(folder, decomposed(f"{UMLAUT},1,Zoë.jpg\n"))
    assert made(folder) == ["Müller"]


@sibling(NAMES)
def a_case_names_its_files_in_the_other_form(folder: Path) -> None:
    case = write_case(folder / "one", **dict(load_case(SHIPPED)))
    for path in (case.template, *case.avatars.values()):
        path.rename(path.with_name(decomposed(f"é{path.name}")))
    file = folder / "one/case.yaml"
    text = file.read_text("utf-8").replace("template.jpg", "étemplate.jpg")
    file.write_text(text.replace(": avatar_", ": éavatar_"), "utf-8")
    load_case(folder / "one").check()


@sibling(NAMES)
def a_dataset_is_found_by_its_composed_path(folder: Path) -> None:
    source = folder / decomposed("Größe") / "bilder"
    for kind in ("cat", "dog"):
        (source / kind).mkdir(parents=True)
        for number in range(30):
            level = number + 100 * (kind == "dog")
            Image.new("L", (16, 16), level).save(source / kind / f"{number}.png")
    place = folder / "Größe" / "bilder"
    data = load_data(f"path:{place}", folder / "data", subset=10_000, validation=1000)
    assert len(data.train) + len(data.validation) > 50


def write_pictures(folder: Path) -> None:
    """20 pictures of noise, different in each folder, with an umlaut in their names as on a Mac."""
    folder.mkdir(parents=True)
    noise = random.Random(folder.as_posix())
    for number in range(20):
        image = Image.frombytes("L", (16, 16), noise.randbytes(256))
        image.save(folder / decomposed(f"bär{number}.png"))


@sibling(NAMES)
def classes_of_two_splits_are_one_in_either_form(folder: Path) -> None:
    for place in ("train/größe", "train/b", decomposed("test/größe"), "test/b"):
        write_pictures(folder / place)
    pictures = read_pictures(SourceParams(path=str(folder)))
    assert pictures.classes == ["b", "größe"]


@sibling(NAMES)
def a_table_names_pictures_in_the_other_form(folder: Path) -> None:
    write_pictures(folder / "p")
    rows = [f"bär{number}.png,{'xy'[number % 2]}\n" for number in range(20)]
    (folder / "p/labels.csv").write_text("file_name,label\n" + "".join(rows), "utf-8")
    assert read_pictures(SourceParams(path=str(folder / "p"))).classes == ["x", "y"]


@sibling(NAMES)
def two_files_with_one_name_are_reported(folder: Path) -> None:
    write_photographs(folder, UMLAUT)
    (folder / "t" / decomposed(UMLAUT)).write_bytes(photograph("template.jpg"))
    lines = make_cases(folder)
    assert sum("one name in two encodings; rename" in line for line in lines) == 1
    assert made(folder) == ["Müller"]


LINES = "pair_lines_ignored_silently"


@sibling(LINES)
def a_line_without_a_template_is_reported(folder: Path) -> None:
    write_photographs(folder)
    lines = make_cases(folder, "one.jpg,1,ann.jpg\ntow.jpg,1,ann.jpg\n")
    assert [line for line in lines if "line 3" in line and "'tow.jpg'" in line] != []
    assert made(folder) == ["one"]


@sibling(LINES)
def an_avatar_that_is_not_there_is_reported(folder: Path) -> None:
    write_photographs(folder)
    [*_, line] = make_cases(folder, "one.jpg,1,anne.jpg\n")
    assert "no usable avatar is called 'anne.jpg'" in line


@sibling(LINES)
def where_no_line_matches_nothing_is_made(folder: Path) -> None:
    write_photographs(folder)
    (folder / "p.csv").write_text(HEADER + "two.jpg,1,ann.jpg\n", "utf-8")
    done = genlab(folder, *PAIRED)
    assert done.returncode == 2
    assert "line 2" in done.stdout
    assert "no line for one.jpg" in done.stdout


@sibling(LINES)
def pairs_in_another_encoding_say_how_to_save_them(folder: Path) -> None:
    write_photographs(folder, UMLAUT)
    with refused("p.csv", "save it as CSV in UTF-8"):
        make_cases(folder, (HEADER + f"{UMLAUT},1,ann.jpg\n").encode("cp1252"))


LATIN1 = "template_name_in_latin1"


@sibling(LATIN1)
def a_template_with_a_latin_1_name_becomes_a_case(folder: Path) -> None:
    write_photographs(folder, LATIN)
    make_cases(folder)
    assert made(folder) == ["café"]
    assert (folder / "out/cafe").is_dir()


@sibling(LATIN1)
def pairs_name_files_with_latin_1_names(folder: Path) -> None:
    write_photographs(folder, LATIN, LATIN)
    make_cases(folder, "café.jpg,1,café.jpg\n")
    assert made(folder) == ["café"]


@sibling(LATIN1)
def folders_with_latin_1_names_are_read_and_printed(folder: Path) -> None:
    inner = folder / Path(LATIN).stem
    inner.mkdir()
    write_photographs(inner, LATIN)
    (inner / "p.csv").write_text(HEADER + "café.jpg,1,ann.jpg\n", "utf-8")
    done = genlab(inner, *PAIRED, PYTHONIOENCODING="utf-8:strict")
    assert done.returncode == 0, done.stderr
    assert made(inner) == ["café"]


ENDINGS = "unknown_endings_skipped_silently"


@sibling(ENDINGS)
def jpeg_is_read_whatever_its_ending(folder: Path) -> None:
    write_photographs(folder, "one.jfif", "ann.JPE")
    (folder / "t/two").write_bytes(photograph("template.jpg"))
    (folder / "t/three.jpg_large").write_bytes(photograph("template.jpg"))
    make_cases(folder)
    assert made(folder) == ["one", "three", "two"]


@sibling(ENDINGS)
def pictures_that_are_not_read_are_reported(folder: Path) -> None:
    write_photographs(folder)
    (folder / "t/two.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(64))
    Image.new("RGB", (200, 200)).save(folder / "a/bob.tif")
    Image.new("RGB", (200, 200)).save(folder / "a/eve.gif")
    lines = make_cases(folder)
    fix = "not read; save it as JPEG, PNG or WebP"
    assert [Path(line.partition(":")[0]).name for line in lines if fix in line] == [
        *("bob.tif", "eve.gif", "two.heic")
    ]


@sibling(ENDINGS)
def other_files_are_left_out_with_a_line(folder: Path) -> None:
    write_photographs(folder)
    (folder / "t/notes.txt").write_text("to do", "utf-8")
    (folder / "t/.DS_Store").write_bytes(b"\0\0\0\1Bud1")
    (folder / "t/._one.jpg").write_bytes(b"\0\5\26\7")
    lines = make_cases(folder)
    assert [line for line in lines if "left out" in line] == [
        f"{folder / 't/notes.txt'}: left out, since it is no photograph"
    ]
    assert made(folder) == ["one"]


@sibling(ENDINGS)
def a_folder_without_photographs_ends_with_2(folder: Path) -> None:
    write_photographs(folder)
    shutil.rmtree(folder / "t")
    for content in (None, "", "two.heic"):
        if content is not None:
            (folder / "t").mkdir(exist_ok=True)
        if content:
            (folder / "t" / content).write_bytes(bytes(64))
        done = genlab(folder, "benchmark", "generate-cases", "--templates=t", "--avatars=a")
        assert done.returncode == 2
        assert ("is no folder" if content is None else "holds no photograph") in done.stderr
        assert ("1 other files" in done.stderr) == bool(content)


# programs

PAIRED = (
    *("benchmark", "generate-cases", "--templates=t", "--avatars=a"),
    *("--pairs=p.csv", "--cases=out", "--consent"),
)


def genlab(folder: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """The command `genlab` in a folder, without a terminal."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables}
    return subprocess.run(
        [sys.executable, "-m", "genlab.cli", *arguments],
        cwd=folder, env=environment, capture_output=True, encoding="utf-8", errors="replace",
        timeout=300,
    )  # fmt: skip


TILDE = "tilde_makes_folder"


@contextmanager
def home(folder: Path) -> Iterator[Path]:
    """A home folder beside the current one, which is `folder`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder / "home"))
        (folder / "home").mkdir()
        (folder / "work").mkdir()
        patch.chdir(folder / "work")
        yield folder / "home"
    assert not list((folder / "work").glob("~*"))


@sibling(TILDE)
def cases_of_the_home_folder_are_run(folder: Path) -> None:
    with home(folder) as home_folder:
        write_case(home_folder / "cases/one", **dict(load_case(SHIPPED)))
        assert [case.case_id for case in load_cases(Path("~/cases"))] == ["one"]


@sibling(TILDE)
def weights_of_the_home_folder_are_found(folder: Path) -> None:
    with home(folder) as home_folder:
        (home_folder / "model.gguf").write_bytes(b"GGUF")
        if find_spec("xllamacpp"):
            assert embedded.find_weights("~/model.gguf") == home_folder / "model.gguf"
        with refused(home_folder / "other.gguf", "agent.gguf"):
            embedded.find_weights("~/other.gguf")


@sibling(TILDE)
def files_of_tools_lie_in_the_home_folder(folder: Path) -> None:
    with home(folder) as home_folder:
        words = "[python3, ~/swap.py, '{output}']"
        text = f"tools:\n  - id: mine\n    kind: command\n    argv: {words}\n"
        Path("tools.yaml").write_text(text, "utf-8")
        assert "~/swap.py" in load_tools(Path("tools.yaml"))["mine"].unavailable()
        (home_folder / "swap.py").write_text("print(1)", "utf-8")
        tool = load_tools(Path("tools.yaml"))["mine"]
        assert tool.unavailable() == ""
        version = tool.version
        (home_folder / "swap.py").write_text("print(2)  # changed", "utf-8")
        assert load_tools(Path("tools.yaml"))["mine"].version != version


@sibling(TILDE)
def options_with_an_equals_sign_mean_the_home_folder(folder: Path) -> None:
    with home(folder) as home_folder:
        write_photographs(home_folder)
        arguments = ("--templates=~/t", "--avatars=~/a", "--cases=~/out")
        done = genlab(Path.cwd(), "benchmark", "generate-cases", *arguments, HOME=str(home_folder))
        assert done.returncode == 0, done.stderr
        assert [path.name for path in (home_folder / "out").iterdir()] == ["one"]


@sibling(TILDE)
def an_unknown_user_has_no_home_folder(folder: Path) -> None:
    with home(folder):
        assert resolve_path("~nobody-of-that-name/x") == Path("~nobody-of-that-name/x")
        with refused("~nobody-of-that-name/x"):
            load_cases(Path("~nobody-of-that-name/x"))


SHOWN = "terminal_cannot_show_a_character"


def write_shown(folder: Path) -> None:
    write_photographs(folder, "Müller 東京.jpg", "東京.jpg")
    (folder / "p.csv").write_text(HEADER + "Müller 東京.jpg,1,東京.jpg\n", "utf-8")


@sibling(SHOWN)
def a_name_is_printed_as_an_escape(folder: Path) -> None:
    write_shown(folder)
    for encoding in ("ascii", "latin-1"):
        done = genlab(folder, *PAIRED, PYTHONIOENCODING=encoding)
        assert done.returncode == 0, done.stderr
        # Typer writes UTF-8 where the environment asks for ASCII.
        assert ("東京" if encoding == "ascii" else "\\u6771\\u4eac") in done.stdout
    assert made(folder) == ["Müller 東京"]


@sibling(SHOWN)
def an_error_is_one_line_in_a_terminal_of_latin_1(folder: Path) -> None:
    write_shown(folder)
    done = genlab(folder, *PAIRED[:-2], "--cases=東京/x", PYTHONIOENCODING="latin-1")
    assert "Traceback" not in done.stderr
    missing = genlab(folder, "benchmark", "leaderboard", "--runs=東京", PYTHONIOENCODING="latin-1")
    assert missing.returncode == 2
    assert "\\u6771" in missing.stderr
    assert len(missing.stderr.splitlines()) == 1


@sibling(SHOWN)
def help_and_tools_are_shown_without_a_locale(folder: Path) -> None:
    locale = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    shutil.copy(ROOT / "params.yaml", folder)
    for arguments in (("benchmark", "tools"), ("doctor",), ("benchmark", "--help")):
        done = genlab(folder, *arguments, **locale)
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 1)


# proxies

HOST = "proxy_rewrites_host"


def request(headers: Mapping[str, str], *, peer: str = "127.0.0.1", path: str = "/") -> dict:
    """An ASGI scope."""
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {
        "type": "http", "method": "GET", "path": path, "query_string": b"", "scheme": "http",
        "client": (peer, 50_000), "headers": pairs,
    }  # fmt: skip


def host_of(scope: dict) -> str:
    """The host that pages see after the checks."""
    [host] = [value.decode() for name, value in scope["headers"] if name == b"host"]
    return host


def refusal(access: Access, scope: dict) -> str:
    """Why a request may not come in."""
    with pytest.raises(Refusal) as fault:
        access.check(scope)
    return str(fault.value)


@sibling(HOST)
def the_origin_of_a_public_host_is_let_in(folder: Path) -> None:
    access = Access(frozenset({PUBLIC, f"{PUBLIC}:8443"}), TOKEN)
    for public in (PUBLIC, f"{PUBLIC}:8443"):
        for path in ("/_stcore/stream", "/api/run", "/_stcore/upload_file/1/2"):
            headers = {"host": "127.0.0.1:8000", "origin": f"https://{public}"}
            scope = request(headers, path=path)
            access.check(scope)
            assert host_of(scope) == public


@sibling(HOST)
def another_origin_is_refused_with_what_to_set(folder: Path) -> None:
    access = Access(frozenset({PUBLIC}), TOKEN)
    for place in (f"{PUBLIC}:8443", f"evil.{PUBLIC}", "evil.example", f"{PUBLIC}.evil.example"):
        headers = {"host": "127.0.0.1:8000", "origin": f"https://{place}"}
        assert f"GENLAB_HOSTS={place} and GENLAB_TOKEN" in refusal(access, request(headers))
    headers = {"host": "127.0.0.1:8000", "origin": "null"}
    assert "GENLAB_HOSTS=its.public.host" in refusal(access, request(headers))


@sibling(HOST)
def public_hosts_without_a_token_do_not_start(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("GENLAB_TOKEN", "GENLAB_RATER_TOKEN", "GENLAB_PROXIES"):
            patch.delenv(name, raising=False)
        patch.setenv("GENLAB_HOSTS", PUBLIC)
        with refused("GENLAB_HOSTS", "GENLAB_TOKEN"):
            Access.from_environment()
        patch.setenv("GENLAB_HOSTS", f"https://{PUBLIC}/")
        patch.setenv("GENLAB_TOKEN", TOKEN)
        with refused("GENLAB_HOSTS", f"https://{PUBLIC}/", "lab.example.org:8443"):
            Access.from_environment()
        patch.delenv("GENLAB_HOSTS")
        patch.setenv("GENLAB_PROXIES", "127.0.0.1/8")
        with refused("GENLAB_PROXIES", "127.0.0.1/8"):
            Access.from_environment()


@sibling(HOST)
def a_forwarded_request_without_settings_says_what_to_set(folder: Path) -> None:
    for header in ("x-forwarded-for", "forwarded", "x-real-ip", "x-forwarded-host"):
        for access in (Access(), Access(token=TOKEN)):
            scope = request({"host": "127.0.0.1:8000", header: "for=192.0.2.7"})
            line = refusal(access, scope)
            assert "GENLAB_HOSTS=its.public.host and GENLAB_TOKEN" in line
    scope = request({"host": "localhost:8000", "x-forwarded-host": PUBLIC})
    assert f"GENLAB_HOSTS={PUBLIC}" in refusal(Access(), scope)


@sibling(HOST)
def what_is_forwarded_counts_from_a_named_proxy_alone(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENLAB_HOSTS", PUBLIC)
        patch.setenv("GENLAB_TOKEN", TOKEN)
        patch.setenv("GENLAB_PROXIES", "127.0.0.1, 10.0.0.0/8")
        access = Access.from_environment()
    x_forwarded = {"x-forwarded-host": PUBLIC, "x-forwarded-proto": "http, https"}
    forwarded = {
        "forwarded": f'for=192.0.2.7;proto=http, for="[::1]:4";host="{PUBLIC}";proto=https'
    }
    for headers in (x_forwarded, forwarded):
        for peer, counts in (("10.1.2.3", True), ("127.0.0.1", True), ("192.0.2.7", False)):
            scope = request({"host": "127.0.0.1:8000", **headers}, peer=peer)
            access.check(scope)
            assert (host_of(scope), scope["scheme"]) == (
                (PUBLIC, "https") if counts else ("127.0.0.1:8000", "http")
            )
        evil = {name: value.replace(PUBLIC, "evil.example") for name, value in headers.items()}
        assert "Host" in refusal(access, request({"host": PUBLIC, **evil}, peer="10.1.2.3"))


def behaves(check: Sibling, folder: Path) -> bool:
    """Whether an input behaves as expected; prints why it does not."""
    try:
        check(folder)
    except Exception as fault:  # a fault of any kind is one
        print(f"{check.__name__}: {str(fault)[:200]}")
        return False
    return True
