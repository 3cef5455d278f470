"""Methods besides the greedy ones: SCOUT's heat maps and the hard constraint."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from partswap import GridShape, HeadPlan
from partswap.data.sets.aviary import Aviary
from partswap.errors import ClassIndexError, SettingError, ShapeError
from partswap.explainer.explainer import Explainer
from partswap.models import shipped
from partswap.runs.config import RunConfig
from partswap.runs.context import open_run_context
from partswap.runs.tasks import AnnotationCache, explain_tasks, plan_tasks
from partswap.search.candidates import same_label, shared_part
from partswap.search.clusters import directions, fit_centroids, fit_kmeans, kmeans_labels, nearest
from partswap.search.methods.hard import Hard
from partswap.search.methods.scout import Scout
from small_heads import make_head

# -- SCOUT ----------------------------------------------------------------------------------------------------------


def linear_head(weight):
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(weight.shape[1], len(weight), bias=False))
    with torch.no_grad():
        head[2].weight.copy_(weight)
    return head


def closed_form(weight, grid, mine, other, confidence):
    """The heat of every cell where ``d logit_y / dF = w_y / cells``, in plain numpy."""
    cells, weight = grid.flatten(1).T.double().numpy(), weight.double().numpy()
    count = len(cells)
    logits = weight @ cells.mean(0)
    p = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    if confidence == "softmax":
        top = p.argmax()
        slope = p[top] * (np.eye(len(p))[top] - p)
    else:
        entropy = -(p * np.log(p)).sum()
        slope = p * (np.log(p) + entropy) / np.log(len(p))
    own, others = (np.maximum(cells @ weight[y] / count, 0) for y in (mine, other))
    sure = np.maximum(cells @ np.maximum(slope @ weight / count, 0), 0)
    return (sure * own * (others.max() - others)).reshape(grid.shape[1:])


def test_heat_maps_worked_out_by_hand():
    # Class 0 likes channel 0, class 1 channel 1. The last cell is class 0's alone.
    weight = torch.tensor([[3.0, 0.0], [0.0, 3.0]])
    query = torch.tensor([[[1.0, 0.0, 2.0]], [[1.0, 1.0, 0.0]]])
    distractor = torch.tensor([[[0.0, 1.0, 0.0]], [[3.0, 1.0, -1.0]]])
    mine, theirs = Scout().maps(linear_head(weight), query, distractor, 1)
    # a_0 = (1, 0, 2), a_1 = (1, 1, 0); the confidence p_0 grows with channel 0 only, by p_0 * p_1 * 3 / 3 per cell.
    p = 1 / (1 + np.exp(-1.0))  # mean channels 1 and 2/3, times 3: logits 3 and 2
    assert mine.tolist() == [pytest.approx([0, 0, 2 * 2 * p * (1 - p)], abs=1e-6)]
    # In the distractor a_1 = (3, 1, 0) and a_0 = (0, 1, 0), so its second cell is out.
    p = 1 / (1 + np.exp(-2.0))
    assert theirs.tolist() == [pytest.approx([3 * 3 * p * (1 - p), 0, 0], abs=1e-6)]


@pytest.mark.parametrize("confidence", ["softmax", "entropy"])
def test_heat_maps_equal_the_closed_form_of_a_pooled_head(confidence):
    g = torch.Generator().manual_seed(0)
    for _ in range(5):
        weight, query, distractor = (torch.randn(s, generator=g) for s in ((4, 6), (6, 3, 5), (6, 3, 5)))
        head = linear_head(weight)
        said = int(head(query[None]).argmax())
        target = (said + 1) % 4
        mine, theirs = Scout(confidence=confidence).maps(head, query, distractor, target)
        torch.testing.assert_close(
            mine.double(), torch.from_numpy(closed_form(weight, query, said, target, confidence)), rtol=1e-3, atol=1e-6
        )
        expected = torch.from_numpy(closed_form(weight, distractor, target, said, confidence))
        torch.testing.assert_close(theirs.double(), expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("kind", ["pooled", "flattened", "convolutional"])
def test_scout_swaps_the_hottest_cells_whatever_comes_of_it(kind):
    torch.manual_seed(0)
    head, grids = make_head(kind, 8, 5), torch.randn(6, 8, 7, 7)
    outcomes = set()
    for target in range(5):
        if target == int(head(grids[:1]).argmax()):
            continue
        cf = Scout().explain(head, grids[0], grids[1:2], target)
        mine, theirs = Scout().maps(HeadPlan(head, GridShape(7, 7)), grids[0], grids[1], target)
        assert [(e.query_cell, e.distractor_cell) for e in cf.edits] == [(int(mine.argmax()), int(theirs.argmax()))]
        assert cf.verify(head, grids[0], grids[1:2])
        assert (cf.evaluations, len(cf)) == (1, 1)
        outcomes.add(cf.flipped)
    assert outcomes == {False}  # one random cell of 49 flips nothing
    with torch.inference_mode():
        same = Scout().explain(head, grids[0].clone(), grids[1:2].clone(), cf.target)
    assert same.edits == cf.edits
    assert all(p.grad is None for p in head.parameters())


def test_scout_stays_finite_where_the_model_is_sure(problem):
    with torch.no_grad():
        problem["head"][2].weight.mul_(300)  # probabilities are 0 and 1 in single precision
    mine, theirs = Scout().maps(problem["head"], problem["query"], problem["distractors"][0], problem["target"])
    assert bool(mine.isfinite().all())
    assert bool(theirs.isfinite().all())


def test_scout_looks_at_all_distractors_it_is_given(problem):
    cf = Scout().explain(**problem)
    heats = [Scout().maps(problem["head"], problem["query"], d, problem["target"])[1] for d in problem["distractors"]]
    assert cf.edits[0].distractor_cell == int(torch.stack(heats).flatten().argmax())


def test_scout_names_what_is_wrong(problem):
    with pytest.raises(SettingError, match="confidence is 'margin'"):
        Scout(confidence="margin")
    with pytest.raises(ClassIndexError, match="0 to 4"):
        Scout().explain(**{**problem, "target": 7})


# -- the hard constraint --------------------------------------------------------------------------------------------


def test_swaps_stay_within_clusters(problem):
    method = Hard(clusters=4, relax=False)
    cf = method.explain(**problem)
    cells = torch.cat([problem["query_aux"].flatten(1).T, problem["distractor_aux"].flatten(2).mT.reshape(-1, 6)])
    labels = kmeans_labels(cells, 4, 0)
    assert cf.edits
    assert all(labels[e.query_cell] == labels[49 + e.distractor_cell] for e in cf.edits)
    assert cf.settings["by"] == "clusters"
    assert cf.settings["clusters"] == 4
    assert not cf.settings["fitted"]


def test_centroids_decide_by_cosine(problem):
    centroids = torch.eye(6)
    cf = Hard(centroids=10 * centroids, relax=False).explain(**problem)
    mine = problem["query_aux"].flatten(1).argmax(0)  # nearest axis; the length of a centroid does not matter
    theirs = problem["distractor_aux"].flatten(2).mT.reshape(-1, 6).argmax(1)
    assert cf.edits
    assert all(mine[e.query_cell] == theirs[e.distractor_cell] for e in cf.edits)
    assert torch.equal(nearest(problem["query_aux"].flatten(1).T, centroids), mine)
    assert "centroids=<6 x 6>" in repr(Hard(centroids=centroids))
    assert replace(Hard(centroids=centroids), clusters=3).centroids is centroids


def test_more_clusters_than_different_cells_are_no_problem(problem):
    flat = {"query_aux": torch.ones(6, 7, 7), "distractor_aux": torch.ones(4, 6, 7, 7)}
    assert Hard().explain(**{**problem, **flat}).source.outside == 0


def test_fitted_centroids_are_those_of_the_part_clustering():
    rng = np.random.default_rng(0)
    grids = rng.normal(size=(20, 5, 3, 3)).astype(np.float16)
    centroids, model = fit_centroids(grids, 4), fit_kmeans(grids, 4)
    assert torch.allclose(centroids.norm(dim=1), torch.ones(4))
    assert np.allclose(np.linalg.norm(model.cluster_centers_, axis=1, keepdims=True) * centroids.numpy(),
                       model.cluster_centers_, atol=1e-5)  # fmt: skip
    same = nearest(torch.from_numpy(directions(grids)), centroids).numpy() == model.predict(directions(grids))
    assert same.mean() > 0.9  # by cosine, so not quite the same
    assert torch.equal(fit_centroids(grids, 4), centroids)


def test_no_cell_is_nearer_to_another_cluster_than_to_its_own_and_centres_are_means():
    grids = np.random.default_rng(1).normal(size=(30, 5, 3, 3)).astype(np.float32)
    model, rows = fit_kmeans(grids, 6, seed=3), directions(grids)
    assert np.array_equal(model.labels_, model.predict(rows))
    means = np.stack([rows[model.labels_ == k].mean(0) for k in range(6)])
    assert np.allclose(means, model.cluster_centers_, atol=1e-5)  # k-means on small batches ends before that


def test_swaps_stay_within_annotated_parts(problem):
    mine = [frozenset({"head"})] * 10 + [frozenset({"tail", "leg"})] * 10 + [frozenset()] * 29
    theirs = [frozenset({"leg"}) if k % 3 == 0 else frozenset() for k in range(196)]
    told = {"query_parts": mine, "distractor_parts": theirs}
    cf = Hard(by="parts", relax=False).explain(**problem, **told)
    assert cf.edits
    assert all(10 <= e.query_cell < 20 and e.distractor_cell % 3 == 0 for e in cf.edits)
    assert Hard(by="parts").explain(**problem, query_parts=[frozenset()] * 49, distractor_parts=theirs).flipped


def test_shared_parts():
    sets = [frozenset("ab"), frozenset(), frozenset("c")]
    assert shared_part(sets[:2], sets).tolist() == [[True, False, False], [False, False, False]]
    assert not shared_part(sets[1:2], sets[1:2]).any()
    labels = torch.tensor([0, 1, 2])
    singles = [frozenset({str(k)}) for k in range(3)]
    assert torch.equal(shared_part(singles, singles), same_label(labels, labels))


def test_the_hard_constraint_names_what_it_lacks(problem):
    bare = {k: v for k, v in problem.items() if "aux" not in k}
    with pytest.raises(SettingError, match="needs an auxiliary"):
        Hard().explain(**bare)
    with pytest.raises(SettingError, match="nobody says which parts"):
        Hard(by="parts").explain(**problem)
    with pytest.raises(ShapeError, match="parts of 3 query cells"):
        Hard(by="parts").explain(**problem, query_parts=[frozenset()] * 3, distractor_parts=[frozenset()] * 196)
    with pytest.raises(ShapeError, match="centroids have shape"):
        Hard(centroids=torch.ones(5, 9)).explain(**problem)
    with pytest.raises(ShapeError, match="distractor_aux"):
        Hard().explain(**{**problem, "distractor_aux": problem["distractor_aux"][:2]})
    with pytest.raises(SettingError, match="by is"):
        Hard(by="colour")
    with pytest.raises(SettingError, match="clusters is 0"):
        Hard(clusters=0)


def test_a_run_over_a_data_set_tells_the_method_the_parts(tmp_path):
    birds = {"data": "aviary", "model": "aviary:vgg", "auxiliary": "aviary", "options": {"per_class": 2}}
    bench = open_run_context(RunConfig(**birds, precision="float32", cache=tmp_path))
    tasks = plan_tasks(bench.encodings.logits, bench.data.labels(), distractors=2).first(4).tasks
    method = Hard(by="parts", relax=False)
    told = list(explain_tasks(bench.explainer, bench.encodings, tasks, method, facts=bench.facts))
    assert sum(len(cf) for _, cf in told) > 0
    for task, cf in told:
        for swap in bench.facts.evidence(task).swaps(cf):
            assert frozenset.intersection(*swap.keypoints)
    with pytest.raises(SettingError, match="must be told"):
        next(explain_tasks(bench.explainer, bench.encodings, tasks, method))
    centroids = fit_centroids(bench.encodings.aux, 15)
    found = [cf for _, cf in explain_tasks(bench.explainer, bench.encodings, tasks, Hard(centroids=centroids))]
    assert all(cf.settings["clusters"] == 15 for cf in found)


def test_parts_of_distractors_that_are_left_out_are_left_out_too():
    data = Aviary("test", per_class=1)
    explainer = Explainer(shipped.load("vgg"), auxiliary="aviary", preprocess=shipped.PREPROCESS,
                          method=Hard(by="parts"))  # fmt: skip
    encoded = explainer.encode([data.image(i) for i in range(6)])
    facts = AnnotationCache(data, shipped.PREPROCESS, explainer.cut.grid)
    target = int(encoded.logits[1].argmax())
    assert int(encoded.logits[0].argmax()) != target
    parts = [facts.parts(k) for k in range(6)]
    cf = explainer.explain(encoded.select([0]), encoded, target, query_parts=parts[0], distractor_parts=parts)
    assert cf.distractors == int((encoded.logits.argmax(1) == target).sum()) < 6
    with pytest.raises(ShapeError, match="parts of 1 distractors"):
        explainer.explain(encoded.select([0]), encoded, target, query_parts=parts[0], distractor_parts=parts[:1])
