"""The tools as clients see them: names, descriptions and schemas; `acts` does the work."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from wake_bridge.domain.values import dataclass
from wake_bridge.mcp import models


@dataclass(frozen=True, slots=True)
class ToolKind:
    """One tool as clients are told of it.

    `reads`: it changes nothing that others see; `removes`: it can take something away; `repeats`: again is the same.
    """

    name: str
    title: str
    description: str
    takes: type[models.Takes]
    gives: type[models.Gives]
    reads: bool = False
    removes: bool = False
    repeats: bool = False
    is_loaded: bool = False
    """Whether Claude Code has it at hand in every turn, without a search for tools before."""


TOOLS: Final[Mapping[str, ToolKind]] = MappingProxyType(
    {
        one.name: one
        for one in (
            ToolKind(
                "check_inbox",
                "Check inbox",
                "Show your unread mail, oldest first, and items from builds, timers and alerts. With consume the texts are shown too and the messages are marked"
                " read: that is how you read your mail after a wake. Mail that you were shown does not wake you again.",
                models.CheckInboxArguments,
                models.InboxResult,
                repeats=True,
                is_loaded=True,
            ),
            ToolKind(
                "read_message",
                "Read a message",
                "Show one message with its text, read or not, and mark it read unless keep is true.",
                models.ReadMessageArguments,
                models.MessageResult,
                repeats=True,
                is_loaded=True,
            ),
            ToolKind(
                "send_message",
                "Send a message",
                "Send a message or a task to another agent, to a person, or to every agent, in your own name. Send only"
                " what somebody needs to know. You are woken when an answer arrives: do not poll.",
                models.SendMessageArguments,
                models.SentResult,
                is_loaded=True,
            ),
            ToolKind(
                "acknowledge",
                "Acknowledge a wake",
                "Acknowledge a wake that you saw and understood and that needs no answer.",
                models.AcknowledgeArguments,
                models.AcknowledgedResult,
                repeats=True,
                is_loaded=True,
            ),
            ToolKind(
                "update_task",
                "Move a task",
                "Move a task that was given to you, or that you gave, to another state. A refusal names the states"
                " that you may choose.",
                models.UpdateTaskArguments,
                models.TaskResult,
            ),
            ToolKind(
                "presence",
                "Show presence",
                "Show the state of an agent: idle, in a turn, waiting on an approval, or unknown. It wakes nobody.",
                models.PresenceArguments,
                models.PresenceResult,
                reads=True,
                repeats=True,
            ),
            ToolKind(
                "list_channels",
                "List channels",
                "List the ways to your user, such as a phone or a desktop: ids and labels. There may be none.",
                models.ListChannelsArguments,
                models.ChannelsResult,
                reads=True,
                repeats=True,
            ),
            ToolKind(
                "send_to_channel",
                "Tell your user",
                "Tell your user something where they are, by a channel; without one by the default. Use it only for what they"
                " asked to be told, or must know now: for everything else end your turn.",
                models.SendToChannelArguments,
                models.SentToChannelResult,
            ),
            ToolKind(
                "remind_me",
                "Set a reminder",
                "Have yourself woken with a text at a time, once or again and again. Say exactly one of in, at and cron. Use it"
                " instead of waiting in a loop.",
                models.RemindMeArguments,
                models.ReminderResult,
            ),
            ToolKind(
                "notify",
                "Put an item into an inbox",
                "Put a short notice into the inbox of an agent, or of your user (@me): a result, an alert, an end of a long run."
                " It is passive unless you say otherwise: the agent sees it at its next turn. For anything that needs an answer use"
                " send_message.",
                models.NotifyArguments,
                models.NotifiedResult,
            ),
            ToolKind(
                "manage_wake_subscription",
                "Manage your wake subscriptions",
                "Choose what wakes you: subscribe, update, unsubscribe, list, or resync, which replays past events."
                " You manage only your own.",
                models.SubscriptionArguments,
                models.SubscriptionResult,
                removes=True,
            ),
        )
    }
)
