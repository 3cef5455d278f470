"""Models that other threads run notice nothing of a trace."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from partswap.cut.shadow_copy import no_side_effects
from partswap.cut.trace import trace_export, trace_fx
from partswap.evaluators.structure import analyse_head
from partswap.explainer.explainer import Explainer
from partswap.grid import GridShape
from partswap.inputs.preprocess import Preprocess

IMAGES = torch.linspace(-1, 1, 2 * 3 * 16 * 16).reshape(2, 3, 16, 16)


def small_net() -> nn.Module:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU(), nn.Conv2d(6, 6, 3, 2, 1), nn.ReLU())
    return nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4)).eval()


def compiled_net() -> nn.Module:
    net = torch.compile(small_net(), backend="eager")
    net(IMAGES)
    return net


class Meanwhile(nn.Module):
    """Runs something in another thread in the middle of its forward pass, hence of its trace."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__()
        self.net, self.work = small_net(), (work,)

    def forward(self, x: Tensor) -> Tensor:
        thread = threading.Thread(target=self.work[0])
        thread.start()
        thread.join()
        return self.net(x)


@pytest.mark.parametrize("foreign", [small_net, compiled_net])
@pytest.mark.parametrize("route", ["fx", "export", "structure"])
def test_a_model_in_another_thread_runs_in_the_middle_of_a_trace(route: str, foreign: Callable[[], nn.Module]) -> None:
    model = foreign()
    expected = model(IMAGES)
    outcomes: list[Tensor | Exception] = []

    def work() -> None:
        try:
            outcomes.append(model(IMAGES))
        except Exception as error:
            outcomes.append(error)

    traced = Meanwhile(work).eval()
    with no_side_effects(IMAGES.device):
        if route == "fx":
            trace_fx(traced)
        elif route == "export":
            trace_export(traced, IMAGES)
        else:
            analyse_head(traced, GridShape(16, 16))
    assert outcomes
    for outcome in outcomes:
        assert isinstance(outcome, Tensor), outcome
        assert torch.allclose(outcome, expected)


@pytest.fixture
def many_switches() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("many_switches")
def test_threads_that_run_a_model_and_threads_that_make_explainers_do_not_disturb_each_other() -> None:
    model, stop = small_net(), threading.Event()
    expected, calls = model(IMAGES), nn.Module.__call__
    failures: list[object] = []
    counts = [0, 0]

    def hammer(number: int) -> None:
        while not stop.is_set():
            try:
                if not torch.allclose(model(IMAGES), expected):
                    failures.append("other logits")
            except Exception as error:
                failures.append(error)
            counts[number] += 1

    def make() -> None:
        try:
            for _ in range(3):
                Explainer(small_net(), preprocess=Preprocess(size=16), auxiliary=None)
        except Exception as error:
            failures.append(error)

    hammers = [threading.Thread(target=hammer, args=(number,)) for number in range(2)]
    makers = [threading.Thread(target=make) for _ in range(2)]
    for thread in hammers + makers:
        thread.start()
    for thread in makers:
        thread.join()
    stop.set()
    for thread in hammers:
        thread.join()
    assert not failures
    assert min(counts) > 0
    assert nn.Module.__call__ is calls
