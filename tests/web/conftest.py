"""A project with the committed results and tiny data and models of both kinds."""

from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
from pages import add_results
from small_benchmark import make_case
from streamlit.testing.v1 import AppTest

from genlab.vae.training.checkpoint import save_checkpoint


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    add_results(folder)
    make_case(folder / "cases", 1, title="Two friends")
    for name, model in (("arc_grids", tiny.model()), ("fashion_mnist", tiny.image_model())):
        save_checkpoint(folder / "data/checkpoints" / name / "model.safetensors", model, {})
    return folder


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """A function that runs a page over a project in a folder, with a query, as Streamlit does."""

    def open_page(folder: Path, name: str, **query: str) -> AppTest:
        monkeypatch.chdir(folder)
        script = f"from genlab.web.pages.main import show\n\nshow({name!r})"
        at = AppTest.from_string(script, default_timeout=60)
        for key, value in query.items():
            at.query_params[key] = value
        at.run()
        assert not at.exception, at.exception[0].message
        return at

    return open_page
