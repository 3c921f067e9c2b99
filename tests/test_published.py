"""What is published: consistent, and apart from it only what is not known."""

import numpy as np
import pytest

from mononet.published import INDICATORS, SPECS


def test_specs_name_features_that_exist():
    for spec in SPECS.values():
        assert set(spec.monotone) | set(spec.published_monotone) <= set(spec.features)
        assert set(spec.post) <= set(spec.features)
        assert np.shape(spec.head) == (5, len(spec.columns))
    assert [len(spec.features) for spec in SPECS.values()] == [7, 13, 13, 276, 28]


def test_only_the_test_rows_of_loan_are_not_known():
    unknown = [(s.name, p) for s in SPECS.values() for p in ("train", "test") if s.rows(p) is None]
    assert unknown == [("loan", "test")]


@pytest.mark.parametrize("kind", INDICATORS)
def test_only_blog_was_published_with_another_indicator(kind):
    for spec in SPECS.values():
        signs = dict(zip(spec.features, spec.indicator(kind), strict=True))
        assert set(signs.values()) <= {-1, 0, 1}
        told = {feature: sign for feature, sign in signs.items() if sign}
        assert (told == spec.monotone) == (spec.name != "blog" or kind == "corrected")
