"""The Docker adapter of the cluster port: containers on one or several Docker engines."""

from steepest.cluster.docker.cluster import DockerCluster
from steepest.cluster.docker.host import DockerNode
from steepest.cluster.docker.mounts import Allowed

__all__ = ["Allowed", "DockerCluster", "DockerNode"]
