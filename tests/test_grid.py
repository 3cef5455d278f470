import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from partswap.errors import NonFiniteError, ShapeError
from partswap.grid import GridShape, check_grid, resize_grid, to_cells


@given(st.integers(1, 14), st.integers(1, 14), st.data())
def test_flat_indices_round_trip(h, w, data):
    grid = GridShape(h, w)
    cell = data.draw(st.integers(0, grid.cells - 1))
    row, col = grid.row_col(cell)
    assert row * w + col == cell
    image = data.draw(st.integers(0, 5))
    assert grid.locate(image * grid.cells + cell) == (image, row, col)


@given(st.integers(1, 14), st.integers(1, 14), st.data())
def test_a_cell_holds_the_middle_of_its_box(h, w, data):
    grid, size = GridShape(h, w), (224, 160)
    cell = data.draw(st.integers(0, grid.cells - 1))
    left, top, right, bottom = grid.box(cell, size)
    assert grid.cell_at((left + right) / 2, (top + bottom) / 2, size) == cell


def test_outside_the_canvas_there_is_no_cell():
    grid = GridShape(7, 7)
    assert grid.cell_at(-1, 5, (224, 224)) is None
    assert grid.cell_at(224, 5, (224, 224)) is None
    assert grid.cell_at(223.9, 223.9, (224, 224)) == 48


def test_cells_of_one_and_of_many_grids_agree():
    grids = torch.arange(2 * 3 * 2 * 4).reshape(2, 3, 2, 4)
    assert torch.equal(to_cells(grids)[8:], to_cells(grids[1]))
    assert to_cells(grids[0])[5].tolist() == grids[0][:, 1, 1].tolist()


def test_resize_averages_down_and_keeps_constants():
    grids = torch.rand(1, 3, 14, 14)
    small = resize_grid(grids, GridShape(7, 7))
    torch.testing.assert_close(small[0, :, 0, 0], grids[0, :, :2, :2].mean((1, 2)))
    torch.testing.assert_close(resize_grid(torch.ones(1, 3, 4, 4), GridShape(7, 7)), torch.ones(1, 3, 7, 7))


@pytest.mark.parametrize("bad", [torch.zeros(3, 7), torch.zeros(0, 7, 7), [1, 2]])
def test_a_grid_of_the_wrong_shape_is_refused_by_name(bad):
    with pytest.raises(ShapeError, match="query"):
        check_grid(bad, "query", ndim=3)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_grid_that_is_not_finite_is_refused_by_name(value):
    grid = torch.zeros(3, 7, 7)
    grid[0, 0, 0] = value
    with pytest.raises(NonFiniteError, match="query holds 1 NaN or infinite"):
        check_grid(grid, "query", ndim=3)
