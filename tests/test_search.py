"""The objective, the choice of a stage, rounds that continue, workers that die."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mononet import data, models, search

BUDGET = search.Budget(
    n_trials=6,
    search_seeds=2,
    search_seed=0,
    round_size=3,
    objective="risk_adjusted",
    max_epochs=3,
    max_depth=1,
)
STAGES = (1, 2, 3)


def evaluation(values, constant=None, non_finite=None):
    values = np.asarray(values, dtype=float)
    none = np.zeros(values.shape, dtype=bool)
    return search.Evaluation(
        values,
        none if constant is None else constant,
        none if non_finite is None else non_finite,
    )


def judge(evaluated, minimized=True, kind="risk_adjusted"):
    return search.judge(0, {}, evaluated, STAGES, minimized, kind)


def flags(*places):
    marked = np.zeros((3, 2, 2), dtype=bool)
    for place in places:
        marked[place] = True
    return marked


def test_the_objective_adds_one_sample_sd_when_minimized_and_subtracts_it_when_not():
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    sd = np.std([1, 2, 3, 4], ddof=1)
    assert search.one_sigma_bound(values, True) == pytest.approx(2.5 + sd)
    assert search.one_sigma_bound(values, False) == pytest.approx(2.5 - sd)
    assert search.one_sigma_bound(values, True, "mean") == 2.5


def test_a_single_value_has_no_spread_to_add():
    assert search.one_sigma_bound(np.array([[7.0]]), True) == 7.0


def test_the_spread_is_split_into_folds_and_seeds():
    trial = judge(evaluation([[[1.0, 3.0], [5.0, 7.0]]] * 3))
    assert trial.std_fold == pytest.approx(np.std([2, 6], ddof=1))
    assert trial.std_seed == pytest.approx(np.sqrt(2))  # each fold's variance over seeds is 2


def test_the_best_stage_is_chosen_and_ties_go_to_the_smaller_one():
    values = np.ones((3, 2, 2))
    assert judge(evaluation(values)).stage == 1
    values[1] = 0.5
    assert judge(evaluation(values)).stage == 2
    assert judge(evaluation(values), minimized=False).stage == 1


def test_a_choice_at_the_last_stage_is_flagged():
    values = np.array([3.0, 2.0, 1.0])[:, None, None] * np.ones((3, 2, 2))
    assert judge(evaluation(values)).at_bound
    assert not judge(evaluation(values), minimized=False).at_bound


def test_a_constant_run_spoils_its_own_stage_only():
    values = np.array([3.0, 2.0, 2.5])[:, None, None] * np.ones((3, 2, 2))
    trial = judge(evaluation(values, constant=flags((1, 0, 1))))
    assert (trial.stage, trial.constant) == (3, 1)


def test_a_run_that_is_not_finite_spoils_every_later_stage():
    values = np.array([3.0, 2.0, 1.0])[:, None, None] * np.ones((3, 2, 2))
    trial = judge(evaluation(values, non_finite=flags((1, 1, 0))))
    assert (trial.stage, trial.non_finite) == (1, 1)


@pytest.mark.parametrize("minimized", [True, False])
def test_a_trial_that_never_works_is_infinitely_bad_and_is_never_selected(minimized):
    bad = judge(evaluation(np.ones((3, 2, 2)), constant=~flags()), minimized)
    good = replace(judge(evaluation(np.full((3, 2, 2), 9.0)), minimized), number=1)
    assert np.isinf(bad.objective)
    assert search.select([bad, good], minimized) is good
    with pytest.raises(search.SearchError, match="all 1 trials had a collapsed"):
        search.select([bad], minimized)


def test_of_equal_trials_the_earliest_is_selected():
    trial = judge(evaluation(np.ones((3, 2, 2))))
    later = replace(trial, number=4)
    assert search.select([later, trial], True) is trial


@given(arrays(float, (3, 2, 2), elements=st.floats(0.01, 1e3)))
def test_no_other_stage_has_a_better_objective(values):
    trial = judge(evaluation(values))
    bounds = [search.one_sigma_bound(v, True) for v in values]
    assert trial.objective == min(bounds)
    assert trial.stage == STAGES[int(np.argmin(bounds))]


@pytest.fixture(scope="module")
def problem():
    dataset = data.load("auto_mpg", max_rows=80)
    problem = models.Problem(dataset.X_train, dataset.y_train, dataset.indicator, dataset.task)
    return problem, dataset.splits(0, 2)


def run(problem, model="split", workers=1, told=(), budget=BUDGET, on_round=lambda trials: None):
    rows, splits = problem
    return search.search(
        models.CATALOGUE[model],
        rows,
        "mse",
        splits,
        budget,
        engine="eager",
        workers=workers,
        told=told,
        on_round=on_round,
    )


def text(trials):
    return search.to_frame(trials).to_csv(index=False)


def test_trials_come_back_from_their_table_bit_for_bit(problem, tmp_path):
    import pandas as pd

    trials = run(problem)
    search.to_frame(trials).to_csv(tmp_path / "trials.csv", index=False)
    space = models.CATALOGUE["split"].space(80, 1)
    again = search.from_frame(pd.read_csv(tmp_path / "trials.csv"), space)
    assert text(again) == text(trials)
    assert again[0].configuration == trials[0].configuration


def test_a_search_taken_up_after_a_round_ends_as_if_it_had_not_stopped(problem):
    whole = run(problem)
    rounds = []
    run(problem, on_round=lambda trials: rounds.append(list(trials)))
    assert [len(trials) for trials in rounds] == [3, 6]
    assert text(run(problem, told=rounds[0])) == text(whole)


def test_two_workers_find_what_one_does(problem):
    assert text(run(problem, workers=2)) == text(run(problem, workers=1))


def test_another_search_seed_draws_other_configurations(problem):
    other = run(problem, budget=replace(BUDGET, search_seed=1))
    assert text(other) != text(run(problem))


def test_a_deterministic_model_is_fitted_once_a_fold(problem):
    assert run(problem, model="linear")[0].values.shape == (2, 1)


def test_an_infinite_objective_is_told_to_the_sampler_like_any_other(problem):
    told = run(problem, budget=replace(BUDGET, n_trials=3))
    spoiled = [replace(told[0], objective=np.inf), *told[1:]]
    space = models.CATALOGUE["split"].space(80, 1)
    assert len(search.suggest(space, spoiled, 3, BUDGET, True)) == 3
