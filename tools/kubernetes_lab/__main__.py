"""``python -m tools.kubernetes_lab start|services|link MBIT|stop``: the lab, for people."""

from __future__ import annotations

import sys

from steepest.errors import SteepestError
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import default_folder


def main() -> None:
    """Start the lab and say how to reach it, give it the images of the services or a link between its nodes, or stop it."""
    lab = KubernetesLab(default_folder())
    if sys.argv[1:] == ["stop"]:
        lab.stop()
        return
    try:
        lab.start()
        if sys.argv[1:] == ["services"]:
            lab.provide_services()
        if sys.argv[1:2] == ["link"]:
            lab.join_by_link()
            lab.link.shape(int(sys.argv[2]))
    except SteepestError as error:
        sys.exit(f"{error}\n{error.hint}".rstrip())
    print(lab.kubectl("get", "nodes"), end="")  # noqa: T201 - the command's output
    print(f"export KUBECONFIG={lab.folder.kubeconfig} PATH={lab.folder.programs}:$PATH")  # noqa: T201 - as above


if __name__ == "__main__":
    main()
