"""Command lines of the stages: their own options, and flat params that they override."""

from argparse import Action, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError, create_model, model_validator
from pydantic_settings import (
    BaseSettings,
    CliApp,
    CliSettingsSource,
    SettingsConfigDict,
    SettingsError,
)
from typing_extensions import Self

from genlab.core.errors import GenlabError, to_genlab_error
from genlab.core.params import FLAT_KEYS, PARAMS_FILE, Params, load_params


class StageOptions(BaseSettings):
    """Command line of a stage."""

    model_config = SettingsConfigDict(
        extra="forbid", cli_kebab_case=True, cli_hide_none_type=True, cli_exit_on_error=False
    )

    @classmethod
    def settings_customise_sources(cls, *_: Any, **__: Any) -> tuple[()]:
        """Read the command line only: an environment variable `SEED` is not an option."""
        return ()

    @property
    def params(self) -> Params:
        """params.yaml with the flat params of the command line."""
        overrides = {key: getattr(self, key) for key in FLAT_KEYS if hasattr(self, key)}
        return load_params().with_overrides(**overrides)


class DatasetOptions(StageOptions):
    """Command line of a stage of one dataset; DATASET in a default path is replaced by its name."""

    dataset: str = Field("arc_grids", description="Name of the dataset.")
    output: Path | None = Field(None, description="Folder for all outputs, instead of DVC's.")

    @model_validator(mode="after")
    def _insert_dataset(self) -> Self:
        for name in type(self).model_fields.keys() - self.model_fields_set:
            if isinstance(path := getattr(self, name), Path):
                setattr(self, name, Path(str(path).replace("DATASET", self.dataset)))
        return self

    def output_path(self, folder: str, name: str = "") -> Path:
        """Return the path of an output: `name` in `folder`, or in the folder of --output."""
        return (self.output or Path(folder.replace("DATASET", self.dataset))) / name

    @property
    def params(self) -> Params:
        """params.yaml for the dataset, with the flat params of the command line."""
        return super().params.for_dataset(self.dataset)


Options = TypeVar("Options", bound=StageOptions)


def overridable(*names: str) -> type[StageOptions]:
    """Return a base class with an option per flat param in `names`; the default is None."""
    fields: dict[str, Any] = {}
    for name in names:
        field = Params.model_fields[name]
        kind: Any = field.annotation
        text = f"{field.description} [default: {PARAMS_FILE}]"
        fields[name] = (kind | None, Field(None, description=text))
    return create_model("Overridable", __base__=StageOptions, **fields)


class _HelpFormatter(RawDescriptionHelpFormatter):
    """Omit pydantic's "(default: null)": the description of such an option states its default."""

    def _get_help_string(self, action: Action) -> str:
        return (action.help or "").replace(" (default: null)", "")


def parse_options(options: type[Options], arguments: list[str] | None = None) -> Options:
    """Parse a command line, by default this program's.

    Raises a `GenlabError` of one line that names the option at fault.
    """
    try:
        source = CliSettingsSource[Any](options, formatter_class=_HelpFormatter)
        return CliApp.run(options, cli_args=arguments, cli_settings_source=source)
    except ValidationError as error:
        raise to_genlab_error(error, "command line") from error
    except SettingsError as error:
        raise GenlabError(f"{error}; see --help".removeprefix("error parsing CLI: ")) from error
