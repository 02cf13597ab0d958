"""The adapter for Kubernetes. It needs the extra ``kubernetes``."""

from steepest.cluster.kubernetes.cluster import KubernetesCluster

__all__ = ["KubernetesCluster"]
