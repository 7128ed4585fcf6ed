"""`params.yaml` as typed, frozen, checked objects: the only input of a stage beside its files."""

from genlab.core.params.flat import FLAT_KEYS as FLAT_KEYS
from genlab.core.params.flat import TRAINING_KEYS as TRAINING_KEYS
from genlab.core.params.loading import IDLE as IDLE
from genlab.core.params.loading import describe_idle as describe_idle
from genlab.core.params.loading import load_params as load_params
from genlab.core.params.loading import parse_params as parse_params
from genlab.core.params.model import PARAMS_FILE as PARAMS_FILE
from genlab.core.params.model import SEARCH_BUDGET as SEARCH_BUDGET
from genlab.core.params.model import Params as Params
from genlab.core.params.model import digest_values as digest_values
from genlab.core.params.sections import AgentParams as AgentParams
from genlab.core.params.sections import BenchmarkParams as BenchmarkParams
from genlab.core.params.sections import EvaluateParams as EvaluateParams
from genlab.core.params.sections import GridParams as GridParams
from genlab.core.params.sections import ImageParams as ImageParams
from genlab.core.params.sections import RoleParams as RoleParams
