"""What a job's run is told. A model reads all of it."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hermes.core.messages import PROGRAM
from hermes.core.parts import Provenance, Source, TextPart
from hermes.cron.job import Job
from hermes.cron.runner import Prompt
from hermes.cron.schedule import zone_of
from hermes.safety.fencing import fence
from hermes.tools.taint import provenance_from_sources

SILENT = "[SILENT]"
"""The whole answer of a run that has nothing to say."""
_HEAD = (
    "[This is a scheduled job{name}. It was due at {due} ({zone}). Nobody is there: nobody can answer questions or"
    " approve anything, so do what can be done without. Jobs cannot be made or changed from here. Your final answer is"
    f" delivered as it stands; if there is nothing that is worth delivering, answer exactly {SILENT} and nothing else.]"
)
_TASK = "Do the scheduled job that is described below."
_MADE = "[The job's instruction, written by a model{under}:]\n{prompt}"


def prompt_for(
    job: Job, instant: float, *, script: str, contexts: Sequence[tuple[str, str]], skills: Sequence[TextPart] = ()
) -> Prompt:
    """The prompt of one run. `script` is what its script said, `contexts` are names of other jobs with what they said
    last.

    The person's own words are the message. A model's are a part of it that carries whose words stood there when they
    were written, and so taints the run; so does what scripts and other jobs say, which is fenced.
    """
    spec = job.spec
    parts = [TextPart(_head(job, instant), PROGRAM), *skills]
    text = spec.prompt
    if spec.made_by != "person" or spec.sources:
        origin = provenance_from_sources(spec.sources)
        under = f" while text from {', '.join(spec.sources)} stood in its conversation" if spec.sources else ""
        made = TextPart(_MADE.format(under=under, prompt=spec.prompt), origin or Provenance(Source.MODEL))
        parts.append(made)
        text = _TASK
    if script.strip():
        said = Provenance(Source.OTHER, f"script {spec.script}".replace(":", " "))
        parts.append(TextPart(f"[What the job's script said:]\n{fence(script, said)}", said))
    for name, words in contexts:
        said = Provenance(Source.OTHER, f"job {name}".replace(":", " "))
        parts.append(TextPart(f"[What another job said last:]\n{fence(words, said)}", said))
    return Prompt(text or _TASK, tuple(parts))


def is_silent(text: str) -> bool:
    """Whether an answer says that there is nothing to deliver."""
    return text.strip().upper() == SILENT


def _head(job: Job, instant: float) -> str:
    due = datetime.fromtimestamp(instant, UTC).astimezone(zone_of(job.row.zone))
    name = "" if job.spec.sources else f" called {job.name!r}"
    return _HEAD.format(name=name, due=f"{due:%Y-%m-%d %H:%M}", zone=job.row.zone)
