"""A broker's settings, as far as they need no broker."""

import base64

from steepest.log.kafka.broker import cluster_id


def test_a_new_cluster_s_id_is_never_taken_for_an_option() -> None:
    """Kafka's tool reads a word that begins with a dash as one."""
    ids = {cluster_id() for _ in range(500)}
    assert len(ids) == 500
    for one in ids:
        assert one[0].isalpha()
        assert len(base64.urlsafe_b64decode(one + "==")) == 16  # what Kafka takes for an id
