"""Every error that Steepest raises, in one tree.

::

    SteepestError               code, message, first step to mend it
    ├── InputError              the caller's or the outside's: a wrong argument, file, record or setting
    │   ├── UndecodableError    bytes that are no event of their topic
    │   ├── RecordingError      a recording or state folder that cannot be read as one
    │   └── UntrustedError      a file of a job or device that is not what it should be
    ├── ClusterError            a cluster call failed; ``definite`` says whether it surely had no effect
    │   ├── RefusedError        the cluster said no: stale incarnation, unknown node, no room (always definite)
    │   └── UncertainError      no answer in time: look the thing up before doing anything else (never definite)
    ├── LogError                the ordered log failed
    │   ├── LogUnavailableError appends or reads do not go through now (a full disk, a broker that is away)
    │   ├── LogEpochError       the log is not the one that was read before
    │   └── LogVersionError     the log asks for a newer reader than this one
    └── BugError                one of ours: an invariant of Steepest's own does not hold

Catch :class:`SteepestError` to report any of them; catch :class:`ClusterError` and look at ``definite`` before a retry.
"""

from __future__ import annotations


class SteepestError(Exception):
    """The base of all: a message for people and the first step to mend what is wrong.

    Attributes:
        code: Stable, kebab-case; made of the class unless given.
        hint: The first thing to do about it, as an imperative sentence; may be empty.
    """

    code = "error"

    def __init__(self, message: str, *, code: str | None = None, hint: str = "") -> None:
        if type(self) is SteepestError:
            raise TypeError("raise one of its subclasses: they say whose fault it is")
        super().__init__(message)
        self.code = code or type(self).code
        self.hint = hint


class InputError(SteepestError):
    """Something that came from outside is wrong; the message names its source."""

    code = "bad-input"


class UndecodableError(InputError):
    """Bytes that are no event of their topic. They become a dead letter, and the reader goes on."""

    code = "undecodable"


class RecordingError(InputError):
    """A folder or file that is no recording or state folder of this version, or a damaged one."""

    code = "bad-recording"


class UntrustedError(InputError):
    """A file or message of a job or device is not what it should be: it counts as absent, and what is around it goes on."""

    code = "untrusted"


class ClusterError(SteepestError):
    """A call of the cluster port failed.

    Attributes:
        definite: True where the thing asked for surely did not happen.
    """

    code = "cluster-failed"
    definite = True


class RefusedError(ClusterError):
    """The cluster refused: nothing happened, and asking again the same way gets the same answer."""

    code = "refused"


class UncertainError(ClusterError):
    """The call may or may not have taken effect. Look it up on the cluster; never assume."""

    code = "uncertain"
    definite = False


class LogError(SteepestError):
    """The ordered log failed."""

    code = "log-failed"


class LogUnavailableError(LogError):
    """The log takes or gives nothing now. Whether an append took effect is unknown."""

    code = "log-unavailable"


class LogEpochError(LogError):
    """The log was made anew under the reader: positions and ids from before mean nothing in it."""

    code = "log-epoch"


class LogVersionError(LogError):
    """``PoolConfigured.reads`` asks for a reader newer than this one, so it stops before that record."""

    code = "log-version"


class BugError(SteepestError):
    """Steepest broke a rule of its own. Please report it with the recording."""

    code = "bug"
