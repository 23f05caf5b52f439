"""What Hermes itself says to a model in the middle of a conversation. These stay in the transcript, flagged synthetic."""

BUDGET_SPENT = (
    "[System: the limit of steps for this turn is reached. Make no more tool calls. "
    "Answer now from what you have, and say plainly what is done and what is not.]"
)
CONTINUE_TEXT = "[System: your answer reached its length limit. Go on exactly where it stopped; repeat nothing.]"
CONTINUE_CUT = (
    "[System: the connection broke in the middle of your answer. Go on exactly where it stopped; repeat nothing.]"
)
CALL_CUT = (
    "[System: your call of {names} was longer than one answer may be and was not run. "
    "Do not send the same call again: split the work into smaller calls.]"
)
EMPTY_AFTER_TOOLS = (
    "[System: your last answer was empty. Look at the tool results above and go on with the task, or say that it is done.]"
)
CALL_NOTE = "(A call of {names} was cut off.)"
INVALID_ARGUMENTS = (
    "The arguments are not valid JSON ({problem}), so nothing was run. "
    "Send the call again with complete, valid JSON; split it if it is long."
)
UNKNOWN_TOOL = "There is no tool named {name!r}, so nothing was run. The tools are: {known}."
DUPLICATE_CALL = "The same call stands earlier in this batch (call {call_id}); its result is there, and it ran once."
TOO_MANY_CALLS = "Only the first {limit} calls of {name} in one batch are run; send this one again later."

STOPPED = "(Stopped by the user before an answer was finished.)"
ENDED_EARLY = "(This turn ended without an answer: {reason}.)"
CRASHED = "(The program ended in the middle of this turn; what follows is a new one.)"
INTERRUPTED_CALL = "Interrupted before it finished; it may have taken partial effect. Check before doing it again."
NOT_STARTED_CALL = "Not started: the turn was stopped first."
