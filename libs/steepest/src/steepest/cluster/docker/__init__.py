"""The Docker adapter of the cluster port: containers on one or several Docker engines."""

from steepest.cluster.allowed_folders import Allowed
from steepest.cluster.docker.cluster import DockerCluster
from steepest.cluster.docker.host import DockerNode

__all__ = ["Allowed", "DockerCluster", "DockerNode"]
