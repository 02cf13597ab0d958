"""What is shown of a command: all of it but secrets, whatever their form."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.describe import sentence
from steepest.describe.masking import MASK, masked, masked_command
from steepest.events import cluster as c

SECRET = st.text(string.ascii_letters + string.digits + "-_+/", min_size=8).filter(lambda text: text[:2] != "--")
NAMES = st.sampled_from(
    [
        *("api-key", "API_KEY", "wandb-api-key", "aws_secret_access_key", "access-key", "private-key", "auth-key"),
        *("token", "hf_token", "hfToken", "password", "db-passwd", "secret", "credentials"),
    ]
)
FORMS = st.sampled_from(
    [
        ("--{name}", "{secret}"),
        ("--{name}={secret}",),
        ("-{name}", "{secret}"),
        ("{name}={secret}",),
        ("sh", "-c", "export {name}='{secret}'; python train.py"),
        ("sh", "-c", "python train.py --{name} {secret} --lr 1"),
        ("run", '{{"{name}": "{secret}", "lr": 1}}'),
        ("curl", "-H", "Authorization: Bearer {secret}"),
        ("git", "clone", "https://me:{secret}@host/path"),
    ]
)


@given(NAMES, SECRET, FORMS)
def test_a_secret_is_not_shown(name: str, secret: str, form: tuple[str, ...]) -> None:
    """Its name is, and every other word."""
    if "://" in form[-1]:
        secret = secret.replace("/", "x")
    command = ("python", *(word.format(name=name, secret=secret) for word in form), "--lr", "0.1")
    shown = masked_command(command)

    assert MASK in "".join(shown)
    assert secret not in " ".join(shown).replace(name, "")
    assert len(shown) == len(command)
    assert (shown[0], *shown[-2:]) == ("python", "--lr", "0.1")


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py", "--max-tokens", "100", "--tokenizer", "bert", "--key", "step"),
        ("python", "https://host/path", "--monkey=1", "keyboard=2"),
        ("python", "--use-auth", "--lr", "1"),
    ],
)
def test_what_is_no_secret_is_shown(command: tuple[str, ...]) -> None:
    """Words that only contain such a word are others."""
    assert masked_command(command) == command


def test_every_form_of_a_submission_is_masked() -> None:
    """The event and the sentence; of variables the names are shown."""
    spec = c.JobSpec(command=("train", "--api-key", "do-not-tell"), env={"A": "do-not-tell"})
    event = c.JobSubmitted(job="a", request="r", spec=spec)

    assert "do-not-tell" not in f"{masked(event)} {sentence(event)}"
    assert masked(event).spec.env == {"A": MASK}
