"""The local adapter of the cluster port: emulated nodes that run real processes on this machine."""

from steepest.cluster.local.cluster import LocalCluster, LocalNode

__all__ = ["LocalCluster", "LocalNode"]
