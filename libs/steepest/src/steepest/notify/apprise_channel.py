"""Messages by Apprise, which knows mail, chats and webhooks. This module needs the extra ``notify``."""

from __future__ import annotations

import asyncio

import apprise

from steepest.errors import InputError
from steepest.notify.notifier import Channel


def channel_to(name: str, url: str) -> Channel:
    """The way to a target.

    Raises:
        InputError: Apprise does not know such an address.
    """
    to = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Steepest", secure_logging=True))
    if not to.add(url):
        scheme = url.partition("://")[0][:20]
        raise InputError(
            f"target {name} of messages: Apprise knows no address of this form ({scheme}://…)",
            hint="see https://appriseit.com/services/",
        )

    def notify(title: str, body: str) -> bool:
        return bool(to.notify(title=title, body=body, body_format=apprise.NotifyFormat.TEXT))

    async def send(title: str, body: str) -> bool:
        # Apprise waits for at most some seconds to connect, and as long to read.
        return await asyncio.to_thread(notify, title, body)

    return send
