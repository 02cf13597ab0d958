"""A real Kubernetes cluster on this machine, for tests and trials: a control plane and two nodes with containerd."""
