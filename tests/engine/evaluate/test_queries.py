"""Test links as queries: directions, filters, and what the model has never seen."""

from __future__ import annotations

import numpy as np
import pytest

from engine.evaluate.queries import queries_from_links, queries_from_triples
from engine.model.model import Model
from tests.engine.random_model import random_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return random_model(tmp_path_factory.mktemp("model"), particles=80, links=300)


def triple(model: Model, link: tuple[int, int, int]) -> tuple[str, str, str]:
    return model.graph.particles[link[0]], model.graph.semcons[link[1]], model.graph.particles[link[2]]


def test_both_directions_with_the_inverse_semcon(model: Model) -> None:
    link = (3, 1, 7)
    queries = queries_from_triples(model, [triple(model, link)], [])
    asked = np.stack([queries.sources, queries.semcons, queries.answers], axis=1).tolist()
    assert asked == [[3, 1, 7], [7, int(model.vocabulary.inverse[1]), 3]]
    assert queries.count == 2


def test_every_line_counts_also_a_repeated_one(model: Model) -> None:
    assert queries_from_triples(model, [triple(model, (1, 0, 2))] * 3, []).count == 6


def test_filters_hold_all_that_is_known_in_either_direction(model: Model) -> None:
    """The file's links, --known and --triples, read forwards and backwards."""
    inverse = model.vocabulary.inverse
    known = [triple(model, (5, 0, 11)), triple(model, (12, int(inverse[0]), 5))]
    queries = queries_from_triples(model, [triple(model, (5, 0, 10)), triple(model, (5, 0, 13))], known)
    of_file = {t for s, p, t in model.graph.links.tolist() if (s, p) == (5, 0)}
    of_file |= {s for s, p, t in model.graph.links.tolist() if (t, p) == (5, int(inverse[0]))}
    for query in range(2):
        assert set(queries.filters[query].tolist()) == of_file | {10, 11, 12, 13}


def test_unseen_particles_take_the_mean_rank_of_what_remains(model: Model) -> None:
    """80 particles of the file, 1 of --known, 1 of --triples: 82 candidates."""
    relation = model.graph.semcons[0]
    known = [("new subject", relation, model.graph.particles[4]), ("new subject", relation, "only known")]
    queries = queries_from_triples(model, [("new subject", relation, model.graph.particles[9])], known)
    assert len(queries.sources) == 0
    answered_backwards = {s for s, p, t in model.graph.directed().tolist() if p == 0 and t == 9}
    forwards, backwards = queries.unseen_ranks
    assert forwards == (82 - 2 + 1) / 2  # the two known answers do not compete
    assert backwards == (82 - len(answered_backwards) + 1) / 2


def test_an_unseen_answer_and_an_unseen_relation_count_too(model: Model) -> None:
    particle, relation = model.graph.particles[0], model.graph.semcons[0]
    queries = queries_from_triples(model, [(particle, relation, "nobody"), (particle, "a new relation", model.graph.particles[1])], [])
    assert (queries.count, len(queries.sources), len(queries.unseen_ranks)) == (4, 0, 4)


def test_filters_name_only_what_the_model_can_score(model: Model) -> None:
    particle, relation = model.graph.particles[0], model.graph.semcons[0]
    queries = queries_from_triples(model, [triple(model, (0, 0, 1))], [(particle, relation, "nobody")])
    assert all(np.all(each < model.particles) for each in queries.filters)


def test_hidden_links_are_filtered_by_each_other(model: Model) -> None:
    queries = queries_from_links(model, np.array([[0, 0, 1], [0, 0, 2]]), [np.array([[0, 0, 3]])])
    assert queries.filters[0].tolist() == [1, 2, 3]
    assert queries.count == 4
