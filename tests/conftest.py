"""What several test files share: two studies of Auto MPG, recorded in seconds."""

import pytest

from mononet import parameters, recording
from mononet.study import Study


@pytest.fixture(scope="session")
def quick(tmp_path_factory):
    """Quick parameters of the page of Auto MPG whose results lie in a scratch folder."""
    folder = str(tmp_path_factory.mktemp("results"))
    pairs = [("results_dir", folder), ("workers", "1"), ("models", "mixed,split,linear")]
    return parameters.resolve("auto_mpg", ["quick"], pairs)


@pytest.fixture(scope="session")
def studies(quick):
    """Recorded studies of split and linear; mixed, the third model of the page, stays absent."""
    return [recording.record(Study.of("auto_mpg", model, quick)) for model in ("split", "linear")]
