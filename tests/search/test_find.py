"""The search on grids: exactness against known answers, options, determinism, bad input."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from partswap import GridShape, HeadPlan, find_counterfactual, find_counterfactuals
from partswap.errors import (
    ClassIndexError,
    MemoryBudgetError,
    NoDistractorsError,
    NonFiniteError,
    SettingError,
    ShapeError,
)
from partswap.results.counterfactual import Step
from partswap.search.beam import BeamSearch
from partswap.search.candidates import Candidates, prefilter, same_label
from partswap.search.proposals import Path, first_of_each_set
from partswap.search.semantic import cosines, log_similarity, recurring_similarity, temperature
from partswap.search.settings import SearchSettings
from partswap.utils.cancel import CancelledError, CancelToken
from small_heads import make_head


def edits(cf):
    return [(e.query_cell, e.distractor_cell) for e in cf.edits]


def brute_force(head, query, distractors, target, similarity, lam, allowed=None, relax=False):
    """The paper's greedy, written as plainly as possible; cases that rounding may decide are not looked at."""
    d, h, w = query.shape
    grid, found = query.clone(), []
    donors = distractors.permute(0, 2, 3, 1).reshape(-1, d)
    while int(head(grid[None]).argmax()) != target and len(found) < h * w:
        free = [(i, j) for i in range(h * w) for j in range(len(donors)) if not any(i == a or j == b for a, b in found)]
        within = [(i, j) for i, j in free if allowed is None or allowed[i, j]]
        values = []
        for i, j in within or (free if relax else []):
            edited = grid.clone()
            edited[:, i // w, i % w] = donors[j]
            value = float(head(edited[None]).log_softmax(1)[0, target]) + lam * float(similarity[i, j])
            values.append((value, i, j, edited))
        if not values:
            break
        values.sort(key=lambda v: -v[0])
        assume(len(values) == 1 or values[0][0] - values[1][0] > 1e-5)
        found.append(values[0][1:3])
        grid = values[0][3]
    return found


@given(st.sampled_from(["pooled", "flattened", "convolutional"]), st.integers(0, 10**6), st.sampled_from([0.0, 0.4]))
def test_the_exhaustive_greedy_equals_brute_force(kind, seed, lam):
    torch.manual_seed(seed)
    head = make_head(kind, 4, 3, cells=9, hidden=8)
    query, distractors = torch.randn(4, 3, 3), torch.randn(2, 4, 3, 3)
    aux = torch.randn(5, 3, 3), torch.randn(2, 5, 3, 3)
    target = (int(head(query[None]).argmax()) + 1) % 3
    similarity = log_similarity(cosines(*aux), 0.1)
    with torch.no_grad():
        expected = brute_force(head, query, distractors, target, similarity, lam)
    cf = find_counterfactual(
        head, query, distractors, target, query_aux=aux[0], distractor_aux=aux[1],
        lam=lam, objective="paper", beam=1, screen=None,
    )  # fmt: skip
    assert edits(cf) == expected


@given(
    st.sampled_from(["pooled", "flattened", "convolutional"]),
    st.integers(0, 10**6),
    st.sampled_from([0.03, 0.2, 0.6]),
    st.booleans(),
)
def test_a_constrained_greedy_equals_brute_force_over_what_is_allowed(kind, seed, share, relax):
    torch.manual_seed(seed)
    head = make_head(kind, 4, 3, cells=9, hidden=8)
    query, distractors = torch.randn(4, 3, 3), torch.randn(2, 4, 3, 3)
    target = (int(head(query[None]).argmax()) + 1) % 3
    allowed = torch.rand(9, 18) < share
    with torch.no_grad():
        expected = brute_force(head, query, distractors, target, allowed, 0.0, allowed, relax)
    cf = find_counterfactual(
        head, query, distractors, target, objective="paper", beam=1, screen=None, allowed=allowed, relax=relax
    )
    assert edits(cf) == expected
    if relax:
        assert cf.source.outside == sum(not allowed[i, j] for i, j in expected)
    else:
        assert all(allowed[i, j] for i, j in expected)


@given(st.integers(0, 10**6), st.sampled_from([0.3, 0.7]))
def test_an_unbounded_beam_equals_brute_force_over_sets_of_what_is_allowed(seed, share):
    torch.manual_seed(seed)
    head = make_head("flattened", 3, 3, cells=4, hidden=8)
    query, distractors = torch.randn(3, 2, 2), torch.randn(1, 3, 2, 2)
    aux = torch.randn(5, 2, 2), torch.randn(1, 5, 2, 2)
    target = (int(head(query[None]).argmax()) + 1) % 3
    allowed, similarity = torch.rand(4, 4) < share, recurring_similarity(*aux, temperature(cosines(*aux)))
    donors = distractors[0].flatten(1)
    best = None
    for size in range(1, 5):
        for chosen in combinations([(i, j) for i in range(4) for j in range(4) if allowed[i, j]], size):
            if len({i for i, _ in chosen}) < size or len({j for _, j in chosen}) < size:
                continue
            grid = query.clone().flatten(1)
            for i, j in chosen:
                grid[:, i] = donors[:, j]
            with torch.no_grad():
                logits = head(grid.view(1, 3, 2, 2))[0]
            rank = sum(float(similarity[i, j]) for i, j in chosen)  # of the fewest edits that flip, the most alike
            if int(logits.argmax()) == target and (best is None or rank > best[0]):
                best = (rank, set(chosen))
        if best is not None:
            break
    cf = find_counterfactual(
        head, query, distractors, target, query_aux=aux[0], distractor_aux=aux[1], screen=None, beam=10**4,
        allowed=allowed,
    )  # fmt: skip
    assert cf.flipped == (best is not None)
    if best is not None:
        assert set(edits(cf)) == best[1]


@pytest.mark.parametrize("objective", ["paper", "set"])
@pytest.mark.parametrize("screen", [None, 5, "auto"])
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("keep", [None, 0.1])
def test_every_setting_keeps_to_what_is_allowed(problem, objective, screen, beam, keep):
    allowed = torch.rand(49, 196, generator=torch.Generator().manual_seed(0)) < 0.05
    cf = find_counterfactual(**problem, objective=objective, screen=screen, beam=beam, keep=keep, allowed=allowed)
    assert cf.edits
    assert all(allowed[i, j] for i, j in edits(cf))
    assert cf.verify(problem["head"], problem["query"], problem["distractors"])


@pytest.mark.parametrize("objective", ["paper", "set"])
@pytest.mark.parametrize("screen", [None, 5, "auto"])
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("keep", [None, 0.1])
def test_every_setting_ends_in_a_flip_that_verifies(problem, objective, screen, beam, keep):
    cf = find_counterfactual(**problem, objective=objective, screen=screen, beam=beam, keep=keep)
    assert cf.flipped
    assert cf.trace[-1].predicted == problem["target"]
    assert cf.verify(problem["head"], problem["query"], problem["distractors"])
    assert len({e.query_cell for e in cf.edits}) == len({e.distractor_cell for e in cf.edits}) == len(cf)


def test_the_same_inputs_give_the_same_edits(problem):
    first, second = (find_counterfactual(**problem) for _ in range(2))
    assert replace(first, seconds=0) == replace(second, seconds=0)


def test_the_query_and_the_head_are_left_alone(problem):
    query, state = problem["query"].clone(), {k: v.clone() for k, v in problem["head"].state_dict().items()}
    find_counterfactual(**problem)
    assert torch.equal(problem["query"], query)
    assert all(torch.equal(v, state[k]) for k, v in problem["head"].state_dict().items())
    assert all(p.grad is None for p in problem["head"].parameters())


def test_equal_candidates_go_to_the_lowest_index(problem):
    # Every distractor twice: a copy may only be used once its original is.
    twice = problem["distractors"].repeat(2, 1, 1, 1)
    inputs = {k: v for k, v in problem.items() if "aux" not in k}
    cf = find_counterfactual(**{**inputs, "distractors": twice}, objective="paper", beam=1, screen=None)
    used = set()
    assert len(cf) > 1
    for _, j in edits(cf):
        assert j < 196 or j - 196 in used
        used.add(j)


def test_max_edits_ends_the_search_without_a_flip(problem):
    bound = torch.nn.Sequential(problem["head"], _Shift(problem["target"]))
    cf = find_counterfactual(**{**problem, "head": bound}, max_edits=3)
    assert (len(cf), cf.flipped) == (3, False)
    full = find_counterfactual(**{**problem, "head": bound}, beam=1, screen=4)
    assert (len(full), full.flipped) == (49, False)


class _Shift(torch.nn.Module):
    """Makes one class unreachable."""

    def __init__(self, target):
        super().__init__()
        self.target = target

    def forward(self, logits):
        return logits - 1e3 * torch.nn.functional.one_hot(torch.tensor(self.target), logits.shape[1])


def hopeless():
    """A search whose target is far out of reach: a small head that hardly ever says it."""
    torch.manual_seed(0)
    head, grids = make_head("convolutional", 4, 3), torch.randn(4, 4, 4, 4)
    target = (int(head(grids[:1]).argmax()) + 1) % 3
    with torch.no_grad():
        head[-1].bias[target] -= 9
    return head, grids[0], grids[1:], target


def test_a_target_out_of_reach_ends_a_patient_search_early():
    head, *grids, target = hopeless()
    usual, early = (
        find_counterfactual(head, *grids, target, objective="paper", beam=1, patience=patience)
        for patience in (None, 3)
    )
    assert (len(usual), len(early), early.flipped) == (16, 3, False)
    assert early.trace == usual.trace[:3]
    assert usual.source.gave_up is None
    assert "each edit adds too little" in early.source.gave_up.text
    assert early.source.advice.kind == "distractors"
    assert " ".join(str(early).split()).endswith("Use distractors that the model takes for the target.")
    assert "patience" not in usual.settings  # files of runs are what they were
    assert early.settings["patience"] == 3


def test_who_says_how_many_edits_gets_them():
    head, *grids, target = hopeless()
    assert len(find_counterfactual(head, *grids, target, max_edits=9, patience=2)) == 9


@pytest.mark.parametrize("kind", ["pooled", "convolutional"])
def test_patience_changes_nothing_where_a_whole_distractor_is_the_target(kind):
    """Even one that hardly any edit helps: it is reached at last, since all cells may be swapped."""
    for seed in range(4):
        torch.manual_seed(seed)
        head, grids = make_head(kind, 4, 3, cells=9, hidden=8), torch.randn(6, 4, 3, 3)
        said = head(grids).argmax(1)
        target = int(said[1])
        if target == int(said[0]):
            continue
        usual, patient = (
            find_counterfactual(head, grids[0], grids[1:], target, patience=patience) for patience in (None, 1)
        )
        assert (patient.edits, patient.trace) == (usual.edits, usual.trace)


def test_swaps_of_several_distractors_reach_what_none_of_them_is():
    """So that no whole distractor is the target ends no search that comes nearer to it."""
    flipped = 0
    for seed in range(40):
        torch.manual_seed(seed)
        head, grids = make_head("pooled", 6, 4), torch.randn(4, 6, 7, 7)
        head[-1].weight.data *= 4
        said = head(grids).argmax(1).tolist()
        target = next((k for k in range(4) if k not in said), None)
        if target is None:
            continue
        usual, patient = (
            find_counterfactual(head, grids[0], grids[1:], target, patience=patience) for patience in (None, 8)
        )
        flipped += usual.flipped
        assert patient.edits == usual.edits or not usual.flipped
    assert flipped > 10


@pytest.mark.parametrize("screen", [None, 5])
def test_when_filtered_candidates_run_out_the_rest_comes_back(problem, screen):
    # One pair passes the filter; an unreachable target keeps the search going beyond it.
    bound = torch.nn.Sequential(problem["head"], _Shift(problem["target"]))
    inputs = {**problem, "head": bound, "beam": 1, "screen": screen}
    cf = find_counterfactual(**inputs, keep=1.01 / (49 * 196), max_edits=3)
    cosine = cosines(problem["query_aux"], problem["distractor_aux"])
    assert edits(cf)[0] == divmod(int(cosine.argmax()), 196)
    assert len(cf) == 3


@pytest.mark.parametrize("screen", [None, 5])
def test_when_a_hard_constraint_runs_out_the_search_ends(problem, screen):
    allowed = torch.zeros(49, 196, dtype=torch.bool)
    allowed[5, 17] = allowed[6, 18] = True
    bound = torch.nn.Sequential(problem["head"], _Shift(problem["target"]))
    inputs = {**problem, "head": bound, "allowed": allowed, "screen": screen}
    for keep in (None, 0.02):  # a prefilter falls back to what the constraint allows, not beyond
        cf = find_counterfactual(**inputs, keep=keep)
        assert sorted(edits(cf)) == [(5, 17), (6, 18)]
        assert not cf.flipped


@pytest.mark.parametrize("screen", [None, 5])
@pytest.mark.parametrize("keep", [None, 0.02])
def test_a_constraint_that_may_be_relaxed_is_kept_as_long_as_it_can_be(problem, screen, keep):
    allowed = torch.zeros(49, 196, dtype=torch.bool)
    allowed[5, 17] = allowed[6, 18] = True
    cf = find_counterfactual(
        **problem, allowed=allowed, relax=True, screen=screen, keep=keep, objective="paper", beam=1
    )
    assert cf.flipped
    assert set(edits(cf)[:2]) == {(5, 17), (6, 18)}
    assert cf.source.outside == len(cf) - 2


def test_a_hard_constraint_keeps_to_the_same_label(problem):
    g = torch.Generator().manual_seed(0)
    mine, theirs = torch.randint(0, 3, (49,), generator=g), torch.randint(0, 3, (196,), generator=g)
    cf = find_counterfactual(**problem, allowed=same_label(mine, theirs))
    assert cf.flipped
    assert all(mine[e.query_cell] == theirs[e.distractor_cell] for e in cf.edits)


def test_no_label_matches_nothing():
    mask = same_label(torch.tensor([-1, 0]), torch.tensor([-1, 0]))
    assert mask.tolist() == [[False, False], [False, True]]


def test_a_set_that_does_not_flip_in_another_order_is_returned_as_it_was_found(problem):
    plan = HeadPlan(problem["head"], GridShape(7, 7))
    evaluator = plan.evaluator(problem["query"], problem["distractors"], 2**26)
    search = BeamSearch(evaluator, problem["target"], None, SearchSettings(lam=0, screen=8, beam=2))
    # Two edits that are far from enough stand for a set that rounding keeps from flipping.
    path = Path(((3, 5), (1, 7)), 0.0, (Step(0.1, 0), Step(0.3, problem["target"])))
    with torch.no_grad():
        assert search._ordered(path) is path


def test_cosines_that_nobody_asks_for_are_not_computed(problem, monkeypatch):
    expected = edits(find_counterfactual(**problem, lam=0))
    monkeypatch.setattr("partswap.search.problem.cosines", None)
    assert edits(find_counterfactual(**problem, lam=0)) == expected
    with pytest.raises(ShapeError, match="distractor_aux has shape"):
        find_counterfactual(**{**problem, "distractor_aux": torch.zeros(3, 6, 7, 7)}, lam=0)


def test_the_prefilter_keeps_the_highest_cosines():
    cosine = torch.tensor([[0.1, 0.9], [0.9, 0.2]])
    assert prefilter(cosine, 0.5).tolist() == [[False, True], [True, False]]
    assert prefilter(cosine, 0.25).tolist() == [[False, True], [False, False]]


def test_similarity_is_a_distribution_over_all_distractor_cells():
    similarity = log_similarity(cosines(torch.randn(6, 7, 7), torch.randn(3, 6, 7, 7)), 0.1)
    assert similarity.shape == (49, 147)
    torch.testing.assert_close(similarity.exp().sum(1), torch.ones(49))


def test_candidates_never_use_a_cell_twice():
    open_pairs = Candidates((4, 8), None, None, torch.device("cpu")).open(((1, 3),))
    assert not open_pairs[1].any()
    assert not open_pairs[:, 3].any()
    assert int(open_pairs.sum()) == 3 * 7


def test_auxiliary_grids_of_another_size_are_resized(problem):
    big = {
        "query_aux": problem["query_aux"].repeat_interleave(2, 1).repeat_interleave(2, 2),
        "distractor_aux": problem["distractor_aux"].repeat_interleave(2, 2).repeat_interleave(2, 3),
    }
    assert edits(find_counterfactual(**{**problem, **big})) == edits(find_counterfactual(**problem))


def test_several_queries_equal_one_by_one(problem):
    head, distractors, theirs = problem["head"], problem["distractors"], problem["distractor_aux"]
    g = torch.Generator().manual_seed(5)
    queries, mine = torch.randn(3, 8, 7, 7, generator=g), torch.randn(3, 6, 7, 7, generator=g)
    targets = [(int(c) + 1) % 5 for c in head(queries).argmax(1)]
    shared = find_counterfactuals(head, queries, distractors, targets, query_aux=mine, distractor_aux=theirs, beam=2)
    alone = [
        find_counterfactual(head, q, distractors, t, query_aux=a, distractor_aux=theirs, beam=2)
        for q, t, a in zip(queries, targets, mine, strict=True)
    ]
    assert [edits(cf) for cf in shared] == [edits(cf) for cf in alone]
    own = find_counterfactuals(
        head, queries, [distractors[:2]] * 3, targets, query_aux=mine, distractor_aux=[theirs[:2]] * 3
    )
    assert all(cf.distractors == 2 for cf in own)
    with pytest.raises(ShapeError, match="2 targets for 3 queries"):
        find_counterfactuals(head, queries, distractors, targets[:2])


def test_what_is_evaluated_without_screening_is_bounded_by_memory(problem):
    inputs = {k: v for k, v in problem.items() if "aux" not in k}
    roomy, tight = (find_counterfactual(**inputs, beam=4, memory_mb=m) for m in (64, 1))
    assert len(roomy) > 1  # several lists, each of which could be followed by nearly all of the 49 x 196 pairs
    assert roomy.evaluations > 2 * 49 * 196
    assert tight.evaluations < len(tight) * 2**20 / 100  # what a candidate takes in the search itself
    assert edits(tight) == edits(roomy)


@pytest.mark.parametrize("kind", ["pooled", "flattened", "convolutional", "dense"])
def test_what_a_candidate_costs_is_measured_once_per_plan(kind, monkeypatch):
    from partswap.evaluators import costs

    torch.manual_seed(2)
    pools = torch.nn.AdaptiveMaxPool2d(1), torch.nn.Flatten(1), torch.nn.Linear(4, 3)
    head = torch.nn.Sequential(*pools).eval() if kind == "dense" else make_head(kind, 4, 3, cells=9, hidden=8)
    query, distractors = torch.randn(4, 3, 3), torch.randn(2, 4, 3, 3)
    plan, target = HeadPlan(head, GridShape(3, 3)), int(head(query[None]).argmin())
    find_counterfactual(plan, query, distractors, target)
    measured = []
    monkeypatch.setattr(costs, "_CountFlops", measured.append)
    monkeypatch.setattr(costs, "_CountBytes", measured.append)
    find_counterfactual(plan, query, distractors, target)
    assert plan.kind == kind
    assert not measured


def test_fewer_candidates_than_screen_is_no_problem(problem):
    inputs = {k: v for k, v in problem.items() if "aux" not in k}
    inputs["distractors"] = inputs["distractors"][:1, :, :, :]
    assert find_counterfactual(**inputs, screen=10**6).flipped


def test_screening_finds_what_the_exhaustive_search_finds(problem):
    for objective in ("paper", "set"):
        every = find_counterfactual(**problem, objective=objective, beam=1, screen=None)
        some = find_counterfactual(**problem, objective=objective, beam=1, screen=48)
        assert edits(every) == edits(some)
        assert some.evaluations < every.evaluations / 50


def test_a_beam_is_never_worse_than_greedy_in_edits():
    torch.manual_seed(1)
    head = make_head("flattened", 8, 6)
    for seed in range(6):
        g = torch.Generator().manual_seed(seed)
        query, distractors = torch.randn(8, 7, 7, generator=g), torch.randn(3, 8, 7, 7, generator=g)
        target = int(head(query[None]).argmin())
        counts = [len(find_counterfactual(head, query, distractors, target, beam=b, screen=None)) for b in (1, 4)]
        assert counts[1] <= counts[0]


@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([0.2, 0.7, 1.0]))
def test_every_set_of_edits_is_evaluated_once(seed, size, share):
    g = torch.Generator().manual_seed(seed)
    sets = {tuple((int(i), int(i + j) % 4) for i, j in torch.randint(0, 4, (size, 2), generator=g)) for _ in range(12)}
    paths = [p for p in sorted(sets) if len({i for i, _ in p}) == len({j for _, j in p}) == size]
    paths = list({frozenset(p): p for p in paths}.values())  # as a search holds them: no set twice
    candidates = Candidates((4, 4), torch.rand(4, 4, generator=g) < share, None, torch.device("cpu"))
    found = [(s, int(f)) for s, p in enumerate(paths) for f in candidates.open(p).flatten().nonzero()]
    assume(found)
    reached = [frozenset((*paths[s], divmod(f, 4))) for s, f in found]
    state, flat = torch.tensor(found).unbind(1)
    fresh = first_of_each_set(paths, state, flat, (4, 4)).tolist()
    assert fresh == [key not in reached[:k] for k, key in enumerate(reached)]


BAD = [
    ({"query": torch.zeros(8, 7)}, ShapeError, "query has shape"),
    ({"query": torch.zeros(9, 7, 7)}, ShapeError, "the query"),
    ({"query": torch.full((8, 7, 7), float("nan"))}, NonFiniteError, "query holds 392 NaN"),
    ({"distractors": torch.full((4, 8, 7, 7), float("inf"))}, NonFiniteError, "distractors holds"),
    ({"distractors": torch.zeros(0, 8, 7, 7)}, NoDistractorsError, "no distractors"),
    ({"distractors": torch.zeros(8, 7, 7)}, ShapeError, "distractors has shape"),
    ({"distractors": torch.zeros(4, 8, 6, 7)}, ShapeError, "same features"),
    ({"target": 5}, ClassIndexError, "0 to 4"),
    ({"target": -1}, ClassIndexError, "target -1 is not a class"),
    ({"target": True}, ClassIndexError, "target True"),
    ({"query_aux": None}, ShapeError, "Give both or neither"),
    ({"distractor_aux": torch.zeros(3, 6, 7, 7)}, ShapeError, "distractor_aux has shape"),
    ({"query_aux": torch.full((6, 7, 7), float("nan"))}, NonFiniteError, "query_aux"),
    ({"query_aux": None, "distractor_aux": None, "keep": 0.1}, SettingError, "keep needs auxiliary"),
    ({"lam": -1}, SettingError, "lam is -1"),
    ({"tau": 0}, SettingError, "tau is 0"),
    ({"keep": 0}, SettingError, "keep is 0"),
    ({"screen": 0}, SettingError, "screen is 0"),
    ({"screen": "fast"}, SettingError, "screen is 'fast'"),
    ({"beam": 0}, SettingError, "beam is 0"),
    ({"max_edits": 0}, SettingError, "max_edits is 0"),
    ({"memory_mb": 0}, SettingError, "memory_mb is 0"),
    ({"objective": "best"}, SettingError, "objective is 'best'"),
    ({"allowed": torch.ones(3, 3)}, ShapeError, "allowed has shape"),
    ({"memory_mb": float("inf")}, SettingError, "memory_mb is inf"),
    ({"max_edits": 2.5}, SettingError, "max_edits is 2.5"),
    ({"screen": True}, SettingError, "screen is True"),
    ({"target": 1.5}, ClassIndexError, "target 1.5"),
    (
        {"query": torch.zeros(9, 7, 7), "distractors": torch.zeros(4, 9, 7, 7)},
        ShapeError,
        "the head fails on a grid of shape",
    ),
    ({"head": torch.nn.Identity()}, ShapeError, "the head returned"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD, ids=[m for _, _, m in BAD])
def test_bad_input_is_named(problem, change, error, message):
    with pytest.raises(error, match=message):
        find_counterfactual(**{**problem, **change})


def test_the_predicted_class_is_no_target(problem):
    said = int(problem["head"](problem["query"][None]).argmax())
    with pytest.raises(ClassIndexError, match=f"already predicts class {said}"):
        find_counterfactual(**{**problem, "target": said})


def test_any_integer_is_a_target(problem):
    import numpy as np

    plain = edits(find_counterfactual(**problem))
    for target in (np.int64(problem["target"]), torch.tensor(problem["target"])):
        assert edits(find_counterfactual(**{**problem, "target": target})) == plain


def test_it_works_under_inference_mode(problem):
    with torch.inference_mode():
        inputs = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in problem.items()}
        found = find_counterfactual(**inputs, screen=8)
    assert edits(found) == edits(find_counterfactual(**problem, screen=8))


def test_a_plan_for_another_grid_is_refused(problem):
    plan = HeadPlan(problem["head"], GridShape(5, 5))
    with pytest.raises(ShapeError, match="7 x 7 grid, the plan was made for 5 x 5"):
        find_counterfactual(**{**problem, "head": plan})


def test_a_head_that_returns_nan_is_an_error(problem):
    with torch.no_grad():
        problem["head"][-1].bias[0] = float("nan")
    with pytest.raises(NonFiniteError, match="the head returned NaN"):
        find_counterfactual(**problem)


def test_a_grid_that_is_too_fine_is_refused_before_it_fills_the_memory():
    # 112 x 112 cells and four distractors: as of a network of small images that is given large ones.
    query, distractors = torch.zeros(1, 112, 112), torch.zeros(4, 1, 112, 112)
    head = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(1, 3))
    with pytest.raises(MemoryBudgetError, match=r"629,407,744 swaps.* 2,401 MB.*later layer"):
        find_counterfactual(head, query, distractors, 1)


def test_too_little_memory_for_one_candidate_is_an_error(problem):
    problem["head"] = make_head("flattened", 8, 5, hidden=512)
    problem["target"] = (int(problem["head"](problem["query"][None]).argmax()) + 1) % 5
    with pytest.raises(MemoryBudgetError, match="Set memory_mb to at least"):
        find_counterfactual(**problem, memory_mb=1e-4)


def test_a_cancelled_search_ends(problem):
    with pytest.raises(CancelledError, match="nobody waits"):
        find_counterfactual(**problem, cancel=CancelToken(lambda: True))
    assert edits(find_counterfactual(**problem, cancel=CancelToken())) == edits(find_counterfactual(**problem))
