"""What makes two cells alike: the paper's softmax, and counterparts that recur."""

import torch

from partswap.models.multi_layer import normalized_layers
from partswap.search.screening import EstimateResiduals
from partswap.search.semantic import centered, counterparts, log_similarity, recurring_similarity, temperature


def images(*rows):
    """Return grids ``(n, e, 1, cells)`` of cells that are directions of their own."""
    return torch.eye(8)[torch.tensor(rows)].transpose(1, 2).unsqueeze(2)


def test_what_is_in_every_image_beats_what_is_alike_once():
    """Cell 0 is a head, in all images; cell 1 a stone that one image has; cells 2 and 3 are sky."""
    query = images([0, 1, 2, 2])[0]
    others = images([0, 1, 2, 2], [0, 3, 2, 2], [2, 4, 0, 2], [0, 5, 2, 2])
    ours = recurring_similarity(query, others, 0.1)
    assert int(ours.argmax()) // 16 == 0  # the query's head
    assert float(ours[0].max()) > float(ours[1].max()) + 1
    cosine = torch.nn.functional.normalize(query.flatten(1), dim=0).T @ others.transpose(0, 1).flatten(1)
    paper = log_similarity(cosine, 0.1)
    assert int(paper.argmax()) // 16 == 1  # the stone: nothing else is like it


def test_counterparts_are_the_same_from_both_sides():
    a, b = (torch.nn.functional.normalize(torch.randn(5, 7), dim=1) for _ in range(2))
    there, back = counterparts((a @ b.T)[:, None], 0.2), counterparts((b @ a.T)[:, None], 0.2)
    torch.testing.assert_close(there[:, 0], back[:, 0].T)


def test_one_distractor_is_enough():
    found = recurring_similarity(torch.randn(6, 3, 3), torch.randn(1, 6, 3, 3), 0.1)
    assert found.shape == (9, 9)
    assert torch.isfinite(found).all()


def test_the_temperature_follows_the_spread():
    cosine = torch.rand(9, 30)
    assert abs(temperature(3 * cosine) / temperature(cosine) - 3) < 1e-4
    assert temperature(torch.ones(3, 3)) > 0


def test_layers_are_centered_on_all_cells_of_an_explanation():
    query, others = torch.randn(7, 2, 2), torch.randn(3, 7, 2, 2)
    mine, theirs = centered(query, others, [3, 4])
    cells = torch.cat([query[None], others]).flatten(2).transpose(1, 2).reshape(-1, 7)
    expected = normalized_layers(cells, [3, 4], cells.mean(0))
    torch.testing.assert_close(torch.cat([mine[None], theirs]).flatten(2).transpose(1, 2).reshape(-1, 7), expected)
    torch.testing.assert_close(expected[:, :3].norm(dim=1), torch.ones(16))


def test_a_pair_seen_twice_is_corrected_by_the_mean():
    corrections = EstimateResiduals((2, 3), torch.device("cpu"))
    corrections.learn(torch.tensor([4, 1, 4]), torch.tensor([1.0, 5.0, 3.0]))
    assert corrections.score.tolist() == [[0, 5, 0], [0, 2, 0]]
