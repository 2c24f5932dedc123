"""Which of our functions ran, to compare with what a fingerprint reached."""

import sys

from fedmerit.experiments.fingerprint.code import BYSTANDERS
from fedmerit.experiments.fingerprint.reach import Reach


def missed(sources, run):
    """Call `run`; return our functions that it called and `sources` do not reach."""
    shut, ran = (*BYSTANDERS, *sources.closed), set()

    def note(frame, event, _):
        module, function = _module(frame), frame.f_code
        if event != "call" or not module.startswith("fedmerit.") or function.co_filename[0] == "<":
            return
        callers = []
        while frame is not None:
            callers.append(_module(frame))
            frame = frame.f_back
        if not any(caller.startswith(shut) for caller in callers):
            # Those who decide nothing may call what they like.
            ran.add((module, function.co_firstlineno, function.co_name))

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    reach = Reach(BYSTANDERS, sources.closed)
    for entry in sources.entries:
        reach.enter(entry)
    assert len(ran) > 40
    return {
        (module, line, name)
        for module, line, name in ran
        if name != "<module>" and not any(line in lines for lines in reach.lines[module])
    }


def _module(frame):
    return frame.f_globals.get("__name__", "")
