"""The admission webhook: gates Jobs that users opt in where the API server cannot do it itself (before Kubernetes 1.36).

Reads: questions of API servers over HTTPS: ``AdmissionReview`` of an object that is created
Writes: the answer: a JSON patch that suspends the object, gates its pods and mounts the job's folders
Scales by: itself: each process answers alone and keeps nothing
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from steepest.admission.gating import JobsVolume
from steepest.admission.webhook import WebhookSettings, serve
from steepest.errors import InputError

_PEM = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    "steepest-admission-webhook",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    help=f"{__doc__}\n\nIt answers over HTTPS until SIGTERM or SIGINT. The Helm chart starts it; see docs/kubernetes.md.",
    epilog="""\b
Examples:
  steepest-admission-webhook --claim shared --folder trial-steepest --certificate tls.crt --key tls.key
  steepest-admission-webhook … --queue images=trial-steepest/pools/vision     another pool's jobs""",
)
@click.option("--claim", required=True, metavar="NAME", help="The claim of the volume with the jobs' files.")
@click.option("--folder", required=True, metavar="PATH", help="The installation's state folder in that volume.")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="QUEUE=PATH",
    help="That of a queue's jobs, where another pool runs them.",
)
@click.option("--keepers", "kept", is_flag=True, help="Give a Job whose user wants that a keeper.")
@click.option("--certificate", required=True, type=_PEM, help="Its certificate, as PEM.")
@click.option("--key", required=True, type=_PEM, help="The certificate's key, as PEM.")
@click.option("--host", default="0.0.0.0", show_default=True, help="On which of the machine's addresses.")  # noqa: S104 - API servers are other machines
@click.option("--port", default=8443, show_default=True, type=click.IntRange(0, 65535), help="At which port.")
def main(
    *, claim: str, folder: str, queues: tuple[str, ...], kept: bool, certificate: Path, key: Path, host: str, port: int
) -> None:
    """Run the service, until SIGTERM or SIGINT."""
    folders = dict(_folder_of_queue(one) for one in queues)
    volume = JobsVolume(claim=claim, folder=folder, folders=folders, has_keepers=kept)
    try:
        serve(WebhookSettings(volume=volume, certificate=certificate, key=key, host=host, port=port))
    except InputError as error:
        print(f"{error}\n{error.hint}".rstrip(), file=sys.stderr)  # noqa: T201 - the last words of a process
        sys.exit(2)


def _folder_of_queue(text: str) -> tuple[str, str]:
    queue, given, folder = text.partition("=")
    if not (queue and given and folder):
        raise click.BadParameter(f"{text!r} is not QUEUE=PATH", param_hint="--queue")
    return queue, folder


if __name__ == "__main__":
    main()
