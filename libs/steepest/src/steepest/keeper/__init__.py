"""Keeps an unmodified job: saves its processes by CRIU and restores them, so that any job can be moved.

A keeper is started in place of a job's command. It is process 1 of the job's own PID namespace, and speaks the SDK's side of
the control folder (``docs/control-folder.md``): a request is answered by an image of all processes, which is a checkpoint
like any other. It must never know plans, nodes or policies, and imports nothing outside the standard library: it is run by
its path with ``-I -S``.

Read it in this order: ``__main__`` makes the namespaces; ``keeper`` holds the order of a save and of a restore; ``images``
is the checkpoint's folder; ``criu`` the program's two commands; ``processes`` what ``/proc`` says; ``tree`` the job's
processes; ``kernel`` the calls; ``gang`` how several keepers do all of that together.

The order of a save loses nothing, whichever process dies: the job is stopped by CRIU and left so; its image is compressed,
hashed, synced, and renamed into place; then the request is answered, and the adapter verifies what it got. Only after that
is the job killed (a stop came) or continued (a release came, or the hold is over). Before the rename the job still exists;
after it the image does.
"""
