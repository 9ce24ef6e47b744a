"""Codex's app-server as a process of its own that can be killed, stopped and made to misbehave; for tests.

It speaks as the real one was heard to (docs/native.md): a WebSocket over a Unix socket behind a link, requests answered by
id, errors as texts, statuses pushed to everybody. What is promised is kept on disk, so that it survives a SIGKILL as the
real one's record does: a message is answered first, recorded a little later, and shown to the model after that.

    python -m wake_bridge.testing.fake_app_server HOME SOCKET

Besides, it can be told what to play by the same way, without a handshake (`FakeAppServer` is the client):
    fake/thread {"threadId", …}     make or change a thread: `cwd`, `ephemeral`, `loaded`, and `scene`: idle, busy, approval
    fake/next {"method", "fault"}   what goes wrong with the next such request: `drop_before`, `drop_after` (the connection),
                                    `silent_before`, `silent_after` (the answer), `die_before`, `die_after`,
                                    `die_begun`, `die_recorded`, `die_asked` (itself), `busy_before`, `approval_before` (a turn
                                    begins first), or an error in those words
    fake/set {…}                    `version`, `record_ms`, `ask_ms`, `reply_ms`
    fake/ask {…}                    send every client a request of the server's own
    fake/seen                       what was asked for, and what clients answered to the server's requests

`FakeAppServer.opens_terminal` starts a client as a terminal is one: what it has opened, the adapter takes to be shown.
"""

from wake_bridge.testing.fake_app_server.client import FakeAppServer, FakeTerminal

__all__ = ["FakeAppServer", "FakeTerminal"]
