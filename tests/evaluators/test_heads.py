"""Every evaluator gives the numbers of the dense head, for any head it recognises."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from partswap.errors import MemoryBudgetError, NonFiniteError, ShapeError
from partswap.evaluators import HeadPlan
from partswap.evaluators.dense import DenseEvaluator
from partswap.grid import FeatureGrids, GridShape

MB = 2**20


def randomise(module, generator):
    """Random weights and batch-norm statistics, of sizes that keep activations around one."""
    for m in module.modules():
        if isinstance(m, nn.BatchNorm2d):
            for p in (m.weight, m.bias, m.running_mean):
                p.data = torch.randn(p.shape, generator=generator) * 0.5 + 0.5
            m.running_var.data = torch.rand(m.running_var.shape, generator=generator) + 0.5
        elif isinstance(m, nn.Conv2d | nn.Linear):
            scale = m.weight[0].numel() ** -0.5
            m.weight.data = torch.randn(m.weight.shape, generator=generator) * scale * 1.5
            if m.bias is not None:
                m.bias.data = torch.randn(m.bias.shape, generator=generator)
    return module.eval()


class Bottleneck(nn.Module):
    def __init__(self, d, hidden, shortcut):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(d, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU(inplace=True),
            nn.Conv2d(hidden, hidden, 3, padding=1), nn.BatchNorm2d(hidden), nn.ReLU(inplace=True),
            nn.Conv2d(hidden, d, 1), nn.BatchNorm2d(d),
        )  # fmt: skip
        self.shortcut = nn.Conv2d(d, d, 1) if shortcut else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.body(x) + self.shortcut(x))


class FunctionalResNet(nn.Module):
    """Written with functions instead of modules, with a mean instead of a pooling layer."""

    def __init__(self, d, classes):
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(d, d, 3, padding=1), nn.BatchNorm2d(d), nn.Linear(d, classes)

    def forward(self, x):
        y = torch.nn.functional.relu(self.norm(self.conv(torch.relu(self.norm(x)))))
        return self.fc((x + y).mean((2, 3)))


def head_of(kind, d, h, w, classes):
    pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten(1)]
    return {
        "pooled": lambda: nn.Sequential(*pool, nn.Linear(d, classes)),
        "pooled_mlp": lambda: nn.Sequential(
            *pool, nn.LayerNorm(d), nn.Linear(d, 7), nn.GELU(), nn.Linear(7, classes)
        ),
        "flattened": lambda: nn.Sequential(
            nn.Flatten(1), nn.Linear(d * h * w, 16), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(16, classes)
        ),
        "flattened_vgg": lambda: nn.Sequential(
            nn.AdaptiveAvgPool2d((h, w)), nn.Flatten(1), nn.Dropout(), nn.Linear(d * h * w, classes, bias=False)
        ),
        "convolutional": lambda: nn.Sequential(
            Bottleneck(d, 5, False), Bottleneck(d, 4, True), *pool, nn.Linear(d, classes)
        ),
        "convolutional_plain": lambda: nn.Sequential(
            nn.Conv2d(d, 6, 3, padding="same", bias=False), nn.SiLU(), nn.Conv2d(6, 6, 3, padding=1), nn.ReLU6(),
            nn.Conv2d(6, 6, 3, padding=1), nn.Tanh(), *pool, nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, classes),
        ),
        "convolutional_functional": lambda: FunctionalResNet(d, classes),
        "convolutional_norm": lambda: nn.Sequential(nn.BatchNorm2d(d), nn.ReLU(), *pool, nn.Linear(d, classes)),
        "dense_stride": lambda: nn.Sequential(
            nn.Conv2d(d, 6, 3, stride=2, padding=1), nn.ReLU(), *pool, nn.Linear(6, classes)
        ),
        "dense_max": lambda: nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Flatten(1), nn.Linear(d, classes)),
        "dense_groups": lambda: nn.Sequential(
            nn.Conv2d(d, d, 3, padding=1, groups=d), *pool, nn.Linear(d, classes)
        ),
    }[kind]()  # fmt: skip


KINDS = [
    "pooled", "pooled_mlp", "flattened", "flattened_vgg", "convolutional", "convolutional_plain",
    "convolutional_functional", "convolutional_norm", "dense_stride", "dense_max", "dense_groups",
]  # fmt: skip


def bench(kind, seed, h=None, w=None, n=None, d=None, classes=None):
    g = torch.Generator().manual_seed(seed)
    pick = lambda low, high: int(torch.randint(low, high + 1, (1,), generator=g))  # noqa: E731
    h, w, n, d, classes = h or pick(2, 8), w or pick(2, 8), n or pick(1, 3), d or pick(2, 9), classes or pick(2, 6)
    head = randomise(head_of(kind, d, h, w, classes), g)
    query, distractors = torch.randn(d, h, w, generator=g), torch.randn(n, d, h, w, generator=g)
    return head, query, distractors, g


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**31), many=st.booleans())
def test_swaps_equal_the_dense_head(kind, seed, many):
    head, query, distractors, g = bench(kind, seed)
    grid = GridShape(*query.shape[1:])
    plan = HeadPlan(head, grid)
    assert plan.kind == kind.split("_")[0]
    fast, dense = plan.evaluator(query, distractors, 64 * MB), DenseEvaluator(head, query, distractors, 64 * MB)
    with torch.no_grad():
        # Two grids in the middle of a search, reached by an edit each.
        states = [e.prepare(e.query[None]) for e in (fast, dense)]
        first = torch.tensor([0, 0]), torch.tensor([0, grid.cells - 1]), torch.tensor([1, 0])
        states = [e.advance(s, *first) for e, s in zip((fast, dense), states, strict=True)]
        torch.testing.assert_close(states[0].logits, states[1].logits, rtol=1e-4, atol=1e-4)
        if many:
            pairs = torch.cartesian_prod(torch.arange(2), torch.arange(grid.cells), torch.arange(len(fast.donors)))
            state, i, j = pairs.unbind(1)
        else:
            size = (9,)
            state = torch.randint(0, 2, size, generator=g)
            i = torch.randint(0, grid.cells, size, generator=g)
            j = torch.randint(0, len(fast.donors), size, generator=g)
        expected = dense.logits(states[1], state, i, j)
        torch.testing.assert_close(fast.logits(states[0], state, i, j), expected, rtol=1e-4, atol=1e-4)
        target = int(expected.argmax(1).mode().values)
        scores, flips = fast.evaluate(states[0], state, i, j, target)
        torch.testing.assert_close(scores, expected.log_softmax(1)[:, target], rtol=1e-4, atol=1e-4)
        margin = expected.topk(2, 1).values.diff(dim=1).abs().flatten() > 1e-4
        assert torch.equal(flips[margin], (expected.argmax(1) == target)[margin])
        gradients = [e.gradients(s, target, margins=True) for e, s in zip((fast, dense), states, strict=True)]
        torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_small_memory_budget_changes_nothing_but_the_chunks(kind):
    head, query, distractors, _ = bench(kind, 5, h=5, w=4, n=2)
    plan = HeadPlan(head, GridShape(5, 4))
    roomy = plan.evaluator(query, distractors, 512 * MB)
    with torch.no_grad():
        i, j = torch.cartesian_prod(torch.arange(20), torch.arange(40)).unbind(1)
        fixed = plan.evaluator(query, distractors, 2**16).fixed_bytes()
        tight = plan.evaluator(query, distractors, max(2**16, fixed) + 7 * roomy.bytes_per_candidate())
        assert tight.chunk_size < len(i) <= roomy.chunk_size
        both = [e.evaluate(e.prepare(e.query[None]), torch.zeros_like(i), i, j, 0) for e in (roomy, tight)]
    torch.testing.assert_close(both[0][0], both[1][0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_no_room_for_one_candidate_is_an_error(kind):
    head, query, distractors, _ = bench(kind, 6)
    plan = HeadPlan(head, GridShape(*query.shape[1:]))
    with pytest.raises(MemoryBudgetError, match="Set memory_mb to at least"):
        _ = plan.evaluator(query, distractors, 8).chunk_size


@pytest.mark.parametrize("kind", ["flattened", "convolutional"])
def test_the_advised_memory_is_enough(kind):
    layers = {
        "flattened": [nn.Flatten(1), nn.Linear(8 * 16, 4)],
        "convolutional": [nn.Conv2d(8, 4, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(1)],
    }[kind]
    head = nn.Sequential(*layers, nn.Linear(4, 1_000_000)).eval()  # a candidate takes megabytes
    plan, query, distractors = HeadPlan(head, GridShape(4, 4)), torch.randn(8, 4, 4), torch.randn(999, 8, 4, 4)
    with pytest.raises(MemoryBudgetError) as error:
        _ = plan.evaluator(query, distractors, MB).chunk_size
    advised = int(re.search(r"at least (\d+)", str(error.value))[1])
    evaluator = plan.evaluator(query, distractors, advised * MB)
    assert plan.kind == kind
    assert evaluator.chunk_size >= 1
    assert evaluator.fixed_bytes() + evaluator.chunk_size * evaluator.bytes_per_candidate() <= advised * MB


@pytest.mark.parametrize("kind", KINDS)
def test_nan_in_a_head_is_an_error(kind):
    head, query, distractors, _ = bench(kind, 7)
    next(m for m in head.modules() if isinstance(m, nn.Linear)).weight.data[0, 0] = float("nan")
    plan = HeadPlan(head, GridShape(*query.shape[1:]))
    with pytest.raises(NonFiniteError, match="the head returned NaN"):
        plan.evaluator(query, distractors, 64 * MB)


def test_extreme_logits_do_not_underflow_the_closed_form():
    head, query, distractors, _ = bench("pooled", 8, h=8, w=8, n=2, d=6, classes=5)
    head[-1].weight.data *= 3000
    fast = HeadPlan(head, GridShape(8, 8)).evaluator(query, distractors, 64 * MB)
    dense = DenseEvaluator(head, query, distractors, 64 * MB)
    i, j = torch.cartesian_prod(torch.arange(64), torch.arange(128)).unbind(1)
    zero = torch.zeros_like(i)
    with torch.no_grad():
        found = [e.evaluate(e.prepare(e.query[None]), zero, i, j, 1) for e in (fast, dense)]
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-4, atol=1e-2)
    assert torch.isfinite(found[0][0]).all()


class Odd(nn.Module):
    """Heads that are easy to misread; each has its own forward."""

    def __init__(self, forward):
        super().__init__()
        self.conv, self.conv2, self.fc = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4, 3)
        self.flat, self.relu = nn.Linear(4 * 9, 3), nn.ReLU(inplace=True)
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.act = forward

    def forward(self, x):
        return self.act(self, x)


def unused_value(m, x):
    y = m.conv(x)
    torch.sigmoid(y)
    return m.fc(y.mean((2, 3)))


def in_place(m, x):
    x = m.conv(x)
    y = m.relu(x)
    return m.fc((m.conv2(y) + x).mean((2, 3)))


def scaled_flat(m, x):
    return m.scale * m.flat(torch.flatten(x, 1))


def scaled_pool(m, x):
    k = m.scale.exp()
    return k * m.fc(x.mean((2, 3)))


def two_paths(m, x):
    return m.fc(x.mean((2, 3))) + m.fc(m.conv(x).mean((2, 3)))


def deep(m, x):
    for _ in range(4):
        x = m.conv2(m.conv2(x))
    return m.fc(x.mean((2, 3)))


@pytest.mark.parametrize("forward", [unused_value, in_place, scaled_flat, scaled_pool, two_paths, deep])
@pytest.mark.parametrize("training", [False, True])
def test_odd_heads_are_read_right_or_evaluated_densely(forward, training):
    torch.manual_seed(0)
    head = Odd(forward).train(training)
    before = [m.training for m in head.modules()]
    query, distractors = torch.randn(4, 3, 3), torch.randn(2, 4, 3, 3)
    evaluator = HeadPlan(head, GridShape(3, 3)).evaluator(query, distractors, 64 * MB)
    i, j = torch.cartesian_prod(torch.arange(9), torch.arange(18)).unbind(1)
    with torch.no_grad():
        expected = torch.cat([head(_swap(query, distractors, a, b)[None]) for a, b in zip(i, j, strict=True)])
        found = evaluator.logits(evaluator.prepare(evaluator.query[None]), torch.zeros_like(i), i, j)
        evaluator.gradients(evaluator.prepare(evaluator.query[None]), 0, margins=True)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert [m.training for m in head.modules()] == before


def doubled(m, x):
    y = torch.tanh(m.conv2(x + x))
    torch.sigmoid(y)  # which nobody reads
    return m.fc((y + y + m.conv2(torch.relu(y))).mean((2, 3)))


def test_gradients_of_an_odd_head_are_those_of_the_head():
    torch.manual_seed(0)
    head, query, distractors = Odd(doubled).eval(), torch.randn(4, 5, 4), torch.randn(2, 4, 5, 4)
    plan = HeadPlan(head, GridShape(5, 4))
    evaluators = plan.evaluator(query, distractors, 64 * MB), DenseEvaluator(head, query, distractors, 64 * MB)
    with torch.no_grad():
        found = [e.gradients(e.prepare(e.query[None]), 1, margins=True) for e in evaluators]
    assert plan.kind == "convolutional"
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["flattened", "convolutional", "convolutional_plain", "convolutional_functional"])
def test_grids_after_many_edits_are_prepared_as_if_from_scratch(kind):
    head, query, distractors, g = bench(kind, 11, h=5, w=6, n=2, d=5)
    plan = HeadPlan(head, GridShape(5, 6))
    roomy = plan.evaluator(query, distractors, 64 * MB)
    # So little memory that windows are computed one by one, and hardly a contribution is kept.
    tight = plan.evaluator(query, distractors, roomy.bytes_per_candidate() + (60_000 if kind == "flattened" else 1))
    i, j = torch.cartesian_prod(torch.arange(30), torch.arange(60)).unbind(1)
    with torch.no_grad():
        state, every = tight.start, torch.zeros_like(i)
        for _ in range(6):
            step = torch.randint(0, len(state.cells), (4,), generator=g)
            state = tight.advance(
                state, step, torch.randint(0, 30, (4,), generator=g), torch.randint(0, 60, (4,), generator=g)
            )
        fresh = roomy.prepare(state.cells)
        torch.testing.assert_close(state.logits, fresh.logits, rtol=1e-4, atol=1e-4)
        found = [e.logits(s, every + 3, i, j) for e, s in ((tight, state), (roomy, fresh))]
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
        gradients = [roomy.gradients(s, 1, margins=True) for s in (state, fresh)]
        torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)


def _swap(query, distractors, i, j):
    edited = query.clone()
    edited[:, i // 3, i % 3] = distractors[j // 9, :, (j % 9) // 3, j % 3]
    return edited


def test_a_head_in_training_mode_is_used_in_eval_mode_and_left_alone():
    head, query, distractors, _ = bench("convolutional", 3)
    plan = HeadPlan(head.train(), GridShape(*query.shape[1:]))
    state = {k: v.clone() for k, v in head.state_dict().items()}
    evaluator = plan.evaluator(query, distractors, 64 * MB)
    with torch.no_grad():
        found = evaluator.prepare(evaluator.query[None]).logits
        evaluator.gradients(evaluator.prepare(evaluator.query[None]), 0, margins=True)
    assert head.training
    assert all(torch.equal(v, state[k]) for k, v in head.state_dict().items())
    torch.testing.assert_close(found, head.eval()(query[None]), rtol=1e-4, atol=1e-4)


def test_a_plan_made_in_inference_mode_can_be_screened_with():
    from partswap import find_counterfactual

    head, query, distractors, _ = bench("convolutional", 3, h=4, w=4, n=2, d=5, classes=4)
    target = int(head(query[None]).argmin())
    expected = find_counterfactual(head, query, distractors, target, screen=8)
    with torch.inference_mode():
        plan = HeadPlan(head, GridShape(4, 4))
        found = find_counterfactual(plan, query, distractors, target, screen=8)
    assert (plan.kind, found.edits) == ("convolutional", expected.edits)


def test_a_check_that_raised_is_made_again():
    head, query, distractors, _ = bench("pooled", 3)
    plan = HeadPlan(head, GridShape(*query.shape[1:]))
    plan._faithful = nn.Identity()  # what a head that was misread would say
    for _ in range(2):
        with pytest.raises(ShapeError, match="the head returned"):
            plan.evaluator(query, distractors, 64 * MB)


@pytest.mark.parametrize("cheap", [0, 1e10])
def test_contributions_of_a_flattened_head_are_computed_once_for_all_edits(monkeypatch, cheap):
    from partswap import find_counterfactual
    from partswap.evaluators import flattened

    monkeypatch.setattr(flattened, "CHEAP_TABLE_MACS", cheap)
    head, query, distractors, _ = bench("flattened", 4, h=4, w=4, n=2, d=5, classes=4)
    made = []
    real = flattened.multiply
    monkeypatch.setattr(flattened, "multiply", lambda *a: made.append(1) or real(*a))
    target = int(head(query[None]).argmin())
    cf = find_counterfactual(head, query, distractors, target, objective="paper", beam=1, screen=None, lam=0)
    assert len(cf) >= 2
    assert len(made) == 16  # one product per cell, however many edits


def test_a_table_of_contributions_changes_no_number(monkeypatch):
    from partswap.evaluators import flattened

    head, query, distractors, _ = bench("flattened", 5, h=4, w=3, n=2, d=5, classes=4)
    found = []
    for cheap in (1e10, 0):
        monkeypatch.setattr(flattened, "CHEAP_TABLE_MACS", cheap)
        evaluator = HeadPlan(head, GridShape(4, 3)).evaluator(query, distractors, 64 * MB)
        with torch.no_grad():
            first = evaluator.advance(evaluator.start, *torch.tensor([[0, 0], [1, 7], [3, 20]]))
            second = evaluator.advance(first, *torch.tensor([[1, 0, 1], [2, 1, 5], [9, 3, 23]]))
            assert evaluator._has_table == (cheap > 0)
            gains = evaluator.gains(second, 2, margins=True)
            pairs = torch.tensor([[0, 1, 2], [4, 0, 11], [2, 22, 8]])
            found.append([second.logits, evaluator.logits(second, *pairs), *(g for state in gains for g in state)])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@given(st.integers(1, 4), st.integers(0, 10_000), st.sampled_from([0.0, 0.2, 0.9]))
def test_rows_of_zero_weight_need_not_be_read(count, seed, density):
    from partswap.evaluators.flattened import _weighted_rows

    rng = torch.Generator().manual_seed(seed)
    matrix = torch.randn(12, 7, generator=rng)
    weights = torch.randn(count, 12, generator=rng) * (torch.rand(count, 12, generator=rng) < density)
    torch.testing.assert_close(_weighted_rows(matrix, weights), weights @ matrix)


def test_an_untraceable_head_is_evaluated_densely():
    class Choosy(nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x.mean((2, 3))
            return x.amax((2, 3))

    assert HeadPlan(Choosy(), GridShape(7, 7)).kind == "dense"


@pytest.mark.parametrize(
    "name", ["vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "vit_small_patch14_reg4_dinov2"]
)
def test_trimming_a_transformer_changes_no_number(name):
    from partswap._vision import timm
    from partswap.cut.network import cut_network
    from partswap.evaluators.costs import module_macs

    options = {"img_size": 112} if "dinov2" in name else {}
    torch.manual_seed(0)
    model = timm().create_model(name, num_classes=7, **options).eval()
    for p in model.parameters():
        p.data += 0.02 * torch.randn_like(p)
    cut = cut_network(model)
    size = 112 if options else 224
    with torch.no_grad():
        grids = cut.features(torch.randn(3, 3, size, size))
        plan = HeadPlan(cut.head, cut.grid)
        assert plan.kind == "dense"
        torch.testing.assert_close(plan.head(*grids), cut.head(grids), rtol=1e-4, atol=1e-4)
        one = grids.context[:1]
        evaluator = plan.evaluator(grids.values[0], grids.values[1:], 2**30, one)
        torch.testing.assert_close(evaluator.start.logits, cut.head(grids)[:1], rtol=1e-4, atol=1e-4)
        full = module_macs(lambda values: cut.head(FeatureGrids(values, one)), grids.values[:1])
        less = evaluator.macs_per_candidate()
    if "distilled" not in name:  # that one reads two tokens
        assert less < 0.75 * full


def test_a_head_that_pools_by_attention_to_a_learned_token():
    from partswap._vision import timm
    from partswap.cut.network import cut_network

    torch.manual_seed(0)
    options = {"img_size": (64, 96), "embed_dim": 48, "num_heads": 3, "depth": 4}
    model = timm().create_model("vit_base_patch16_siglip_224", num_classes=7, **options).eval()
    for p in model.parameters():
        p.data += 0.02 * torch.randn_like(p)
    cut = cut_network(model)
    assert (tuple(cut.grid), cut.head.needs_context) == ((4, 6), False)
    with torch.no_grad():
        grids = cut.features(torch.randn(3, 3, 64, 96)).values
        evaluator = HeadPlan(cut.head, cut.grid).evaluator(grids[0], grids[1:], 2**30)
        assert evaluator.macs_per_candidate() > 24 * 48 * 48
        one = torch.tensor([0]), torch.tensor([5]), torch.tensor([30])
        edited = grids[:1].clone()
        edited[0, :, 0, 5] = grids[2, :, 1, 0]
        torch.testing.assert_close(evaluator.logits(evaluator.start, *one), cut.head(edited), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_heads_of_other_precisions(kind, dtype):
    head, query, distractors, _ = bench(kind, 12, h=3, w=4, n=2)
    head = head.to(dtype)
    plan = HeadPlan(head, GridShape(3, 4))
    assert plan.kind == kind.split("_")[0]
    evaluator = plan.evaluator(query, distractors, 64 * MB)
    assert evaluator.name == plan.kind != "dense" or not kind.startswith(("pooled", "flattened"))
    i, j = torch.cartesian_prod(torch.arange(12), torch.arange(24)).unbind(1)
    zero = torch.zeros_like(i)
    with torch.no_grad():
        edited = query.repeat(len(i), 1, 1, 1)
        edited[torch.arange(len(i)), :, i // 4, i % 4] = distractors[j // 12, :, (j % 12) // 4, j % 4]
        expected = head(edited.to(dtype)).float()
        scores, flips = evaluator.evaluate(evaluator.start, zero, i, j, 1)
        evaluator.gradients(evaluator.advance(evaluator.start, zero[:2], i[:2], j[:2]), 1, margins=True)
    rounding = 16 * torch.finfo(dtype).eps * float(expected.abs().max().clamp(min=1)) + 1e-4
    assert scores.dtype == torch.float32
    assert (scores - expected.log_softmax(1)[:, 1]).abs().max() <= 2 * rounding
    sure = expected.topk(2, 1).values.diff(dim=1).abs().flatten() > 2 * rounding
    assert torch.equal(flips[sure], (expected.argmax(1) == 1)[sure])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_model_of_another_precision_is_searched(dtype):
    from partswap import _vision, find_counterfactual
    from partswap.cut.network import cut_network

    torch.manual_seed(0)
    model = _vision.timm().create_model("vit_tiny_patch16_224", num_classes=5, img_size=(32, 48), depth=4).to(dtype)
    cut = cut_network(model)
    with torch.no_grad():
        grids = cut.features(torch.randn(3, 3, 32, 48))
        target = int(cut.head(grids)[0].argmin())
    plan = HeadPlan(cut.head, cut.grid)
    cf = find_counterfactual(plan, grids.at([0]), grids.values[1:], target, max_edits=2)
    assert len(cf) >= 1
