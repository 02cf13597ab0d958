"""Every error that Steepest raises, in one tree.

::

    SteepestError               code, message, first step to fix it
    ├── InputError              the caller's or the environment's fault: a wrong argument, file, record or setting
    │   ├── UndecodableError    bytes that are not an event of their topic
    │   ├── RecordingError      a recording or state folder that cannot be read
    │   └── UntrustedError      an invalid file or message of a job or device
    ├── ClusterError            a cluster call failed; ``definite`` says whether it certainly had no effect
    │   ├── RefusedError        the cluster refused: stale incarnation, unknown node, no room (always definite)
    │   └── UncertainError      no answer in time: look up the state before doing anything else (never definite)
    ├── LogError                the ordered log failed
    │   ├── LogUnavailableError appends or reads fail at the moment (a full disk, a broker that is down)
    │   ├── LogEpochError       the log is not the one that was read before
    │   └── LogVersionError     the log requires a newer reader
    └── BugError                Steepest's own fault: one of its invariants does not hold

Catch :class:`SteepestError` to report any of them; catch :class:`ClusterError` and check ``definite`` before a retry.
"""

from __future__ import annotations


class SteepestError(Exception):
    """The base of all errors: a message for people and the first step to fix the problem.

    Attributes:
        code: Stable, kebab-case; the class's own unless given.
        hint: The first step to take, as an imperative sentence; may be empty.
    """

    code = "error"

    def __init__(self, message: str, *, code: str | None = None, hint: str = "") -> None:
        if type(self) is SteepestError:
            raise TypeError("raise one of its subclasses: they state whose fault it is")
        super().__init__(message)
        self.code = code or type(self).code
        self.hint = hint


class InputError(SteepestError):
    """An input is invalid; the message names its source."""

    code = "bad-input"


class UndecodableError(InputError):
    """Bytes that are not an event of their topic. They become a dead letter, and the reader continues."""

    code = "undecodable"


class RecordingError(InputError):
    """A folder or file that is not a recording or state folder of this version, or is damaged."""

    code = "bad-recording"


class UntrustedError(InputError):
    """A file or message of a job or device is invalid: it counts as absent, and processing continues."""

    code = "untrusted"


class ClusterError(SteepestError):
    """A call of the cluster port failed.

    Attributes:
        definite: Whether the requested action certainly did not happen.
    """

    code = "cluster-failed"
    definite = True


class RefusedError(ClusterError):
    """The cluster refused: nothing happened, and repeating the same call fails again."""

    code = "refused"


class UncertainError(ClusterError):
    """The call may or may not have taken effect. Look up the state on the cluster; never assume it."""

    code = "uncertain"
    definite = False


class LogError(SteepestError):
    """The ordered log failed."""

    code = "log-failed"


class LogUnavailableError(LogError):
    """The log cannot be appended to or read at the moment. Whether an append took effect is unknown."""

    code = "log-unavailable"


class LogEpochError(LogError):
    """The log was replaced while it was read: earlier positions and ids are meaningless in it."""

    code = "log-epoch"


class LogVersionError(LogError):
    """``PoolConfigured.reads`` requires a newer reader, so this one stops before that record."""

    code = "log-version"


class BugError(SteepestError):
    """Steepest violated one of its own invariants. Please report it with the recording."""

    code = "bug"
