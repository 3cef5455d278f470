"""Products by the quicker library: the same numbers, gradients where they are wanted, costs counted."""

import copy

import pytest
import torch
from torch import nn

from partswap.evaluators import onednn as products
from partswap.evaluators.costs import activation_bytes, module_macs

LARGE, SMALL = (64, 256, 96), (3, 5, 7)


@pytest.fixture(params=["AuthenticAMD", "GenuineIntel"])
def maker(request, monkeypatch):
    """The tests run as on the processors of either maker, whatever the machine has."""
    monkeypatch.setattr(products, "_is_intel", lambda: request.param == "GenuineIntel")
    products.onednn_operation.cache_clear()
    yield request.param
    products.onednn_operation.cache_clear()


def test_the_other_library_is_used_where_it_is_quicker(maker):
    there = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    assert (products.onednn_operation() is not None) == (there and maker == "AuthenticAMD")


@pytest.mark.parametrize("shape", [LARGE, SMALL, (0, 256, 96)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_products_are_those_of_torch(maker, shape, dtype, turned, biased):
    m, k, n = shape
    torch.manual_seed(0)
    rows, matrix, bias = torch.randn(2, m, k, dtype=dtype), torch.randn(k, n, dtype=dtype), torch.randn(n, dtype=dtype)
    matrix = matrix.T.contiguous().T if turned else matrix
    expected = rows.double() @ matrix.double() + (bias.double() if biased else 0)
    found = products.multiply(rows, matrix, bias if biased else None)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "layout",
    [
        lambda m, n: torch.randn(n, m).T,
        lambda m, n: torch.randn(m, 2 * n)[:, ::2],
        lambda m, n: torch.randn(m + 1, n + 1)[1:, 1:],
        lambda m, n: torch.randn(1, n).expand(m, n),
    ],
    ids=["turned", "every second", "cut out", "repeated"],
)
def test_memory_may_be_laid_out_in_any_way(maker, layout):
    torch.manual_seed(0)
    for rows, matrix in ((layout(64, 256), torch.randn(256, 96)), (torch.randn(64, 256), layout(256, 96))):
        bias = torch.randn(192)[::2]
        expected = rows.double() @ matrix.double() + bias.double()
        torch.testing.assert_close(products.multiply(rows, matrix, bias).double(), expected, rtol=1e-5, atol=1e-4)


def test_gradients_pass_through_a_product(maker):
    rows = torch.randn(64, 256, requires_grad=True)
    matrix = torch.randn(256, 96)
    products.multiply(rows, matrix).sum().backward()
    torch.testing.assert_close(rows.grad, matrix.sum(1).expand(64, -1))


def _layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(inplace=True), nn.Linear(512, 40)).eval()


def test_a_quick_module_shares_its_weights_and_leaves_the_other_alone(maker):
    plain = _layers()
    quick = products.with_onednn_linears(plain)
    x = torch.randn(64, 256)
    with torch.no_grad():
        torch.testing.assert_close(quick(x), plain(x), rtol=1e-5, atol=1e-5)
        plain[0].weight.zero_()
        assert quick[0].weight is plain[0].weight
    assert [type(layer) for layer in plain] == [nn.Linear, nn.ReLU, nn.Linear]
    assert quick(x).grad_fn is not None


def test_what_a_quick_module_costs_is_counted(maker):
    plain = _layers()
    quick, row = products.with_onednn_linears(copy.deepcopy(plain)), torch.randn(1, 64, 256)
    assert module_macs(quick, row) == module_macs(plain, row) == 64 * (256 * 512 + 512 * 40)
    assert activation_bytes(quick, row) <= activation_bytes(plain, row)


def test_a_module_that_cannot_be_copied_stays_as_it_is(maker):
    class Single(nn.Sequential):
        def __deepcopy__(self, memo):
            raise TypeError("there is only one")

    module = Single(nn.Linear(256, 512)).eval()
    assert products.with_onednn_linears(module) is module


def test_a_bias_may_be_part_of_something(maker):
    module = nn.Sequential(nn.Linear(256, 512)).eval()
    module[0].bias = nn.Parameter(torch.randn(1024)[::2])
    x = torch.randn(64, 256)
    with torch.no_grad():
        torch.testing.assert_close(products.with_onednn_linears(module)(x), module(x), rtol=1e-5, atol=1e-5)


def test_a_layer_of_a_class_of_its_own_is_not_touched(maker):
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    module = nn.Sequential(Doubled(256, 512), nn.Linear(512, 40)).eval()
    x = torch.randn(64, 256)
    with torch.no_grad():
        torch.testing.assert_close(products.with_onednn_linears(module)(x), module(x), rtol=1e-5, atol=1e-5)
