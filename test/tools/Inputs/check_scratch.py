"""Prints the scratch that a profile's executor had beside that which a report predicts with it."""

import json
import sys

profile, report = (json.load(open(name)) for name in sys.argv[1:])
prediction = report["prediction"]
temporaries, arena = prediction["temporaries"], prediction["arena_bytes"]
print(
    f"scratch {profile['step']['scratchBytes']} = {temporaries['scratch_bytes']}",
    f"known {temporaries['known']} arena {arena} device sum",
    prediction["device_bytes"] == arena + temporaries["scratch_bytes"],
)
