"""Prompts that Hermes itself adds in the middle of a conversation; they stay in the transcript, flagged synthetic."""

BUDGET_SPENT = (
    "[System: the limit of steps for this turn is reached. Make no more tool calls. "
    "Answer now from what you have, and say plainly what is done and what is not.]"
)
BUDGET_IN_WORDS = (
    "[System: nothing was run: no tool can be called any more in this turn. "
    "Answer in words now: what is done, and what is not.]"
)
BUDGET_ANSWER = "(The limit of steps for one turn was reached before an answer was written.)"
CONTINUE_TEXT = "[System: your answer reached its length limit. Go on exactly where it stopped; repeat nothing.]"
CONTINUE_CUT = (
    "[System: the connection broke in the middle of your answer. Go on exactly where it stopped; repeat nothing.]"
)
CALL_CUT = (
    "[System: your call of {names} was longer than one answer may be and was not run. "
    "Do not send the same call again: split the work into smaller calls.]"
)
EMPTY_AFTER_TOOLS = (
    "[System: your last answer was empty. Look at the tool results above and go on with the task, "
    "or say that it is done.]"
)
LOOP_DETECTED = (
    "[System: {found} Doing it again will not help: look at what it says, and go another way or ask the user.]"
)
LOOP_STOPPED = (
    "[System: {found} This turn ends here. Make no more tool calls: answer now from what you have, and say "
    "plainly what is done, what is not, and what stands in the way.]"
)
HOOK_WANTS_MORE = "[System: a hook of the person's checked your answer, and the work is not done yet: {left}]"
HELD_BACK = "[The person's message was held back by a hook of theirs; you are not shown it.]"
THOUGHT_ONLY = "[System: you have thought, but not answered. Give your answer now.]"
ANSWERED_BEFORE = "(The answer stands above.)"
CALL_NOTE = "(A call of {names} was cut off.)"

STOPPED = "(Stopped by the user before an answer was finished.)"
ENDED_EARLY = "(This turn ended without an answer: {reason}.)"
NO_CALLER_RESULT = "Outcome unknown: the program that was to run this sent no result."
OTHER_TOOL = "Not started: the program ended first, and another tool has this name now."
NOT_STARTED_CALL = "Not started: the turn was stopped first."
CRASHED_CALL = (
    "Outcome unknown: the program ended while this ran. All, part or none of its effect may have happened: "
    "check before doing it again."
)
