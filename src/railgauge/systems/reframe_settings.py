"""ReFrame's configuration, made from the systems under `configs/systems/`."""

from __future__ import annotations

from typing import Any

from railgauge import paths, systems
from railgauge.stack import installed
from railgauge.systems import history, rehearsal


def _with_stack(entry: dict[str, Any]) -> dict[str, Any]:
    """Jobs of every partition begin with the tools that `make stack` built, where it did."""
    first = installed.activating(entry["name"])
    partitions = [
        {**partition, "prepare_cmds": [*first, *partition.get("prepare_cmds", [])]}
        for partition in entry["partitions"]
    ]
    return {**entry, "partitions": partitions} if first else entry


def site_configuration() -> dict[str, Any]:
    """All systems as ReFrame's site configuration."""
    session, results = paths.session_folder(), paths.results_root() / "history.db"
    history.drop_half_made(results)
    entries = []
    for name in systems.of_session():
        systems.load(name)  # its errors say more than ReFrame's
        entry = systems.entry(name)
        if rehearsal.scenario() is not None and name == systems.selected():
            entry = rehearsal.staged(entry)
        else:
            entry = _with_stack(entry)
        # The one way to find the system is `systems.current`, which answers with its name.
        entries.append({**entry, "hostnames": [f"{name}$"], "prefix": str(session)})
    return {
        "systems": entries,
        "autodetect_methods": ["py::this_system"],
        "general": [
            {
                "check_search_path": [str(paths.CHECKS)],
                # A finished job is noticed within 1.6 s, after 9 s within one. Each look is a
                # `sacct` that a site's slurmdbd answers, and costs the lab 40 ms of CPU. The rate
                # is the average since the last change (findings/reframe-poll-interval.sh): if it
                # fell further, intervals of many seconds would come.
                "poll_rate_max": 2,
                "poll_rate_min": 1,
                "poll_rate_decay": 0.1,
                "report_file": str(session / "report.json"),
                "keep_stage_files": True,
            }
        ],
        "modes": [
            {"name": "baseline", "options": ["-S gate=baseline"]},
            {"name": "acceptance", "options": ["-S gate=acceptance"]},
        ],
        "logging": [
            {
                "handlers": [
                    {"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"},
                    {
                        "type": "file",
                        "name": str(session / "reframe.log"),
                        "level": "debug2",
                        "format": "[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s",
                        "append": False,
                    },
                ],
                "handlers_perflog": [
                    {
                        "type": "filelog",
                        "prefix": "%(check_system)s/%(check_partition)s",
                        "level": "info",
                        "format": "%(check_result)s|%(check_job_completion_time)s|%(check_info)s"
                        "|%(check_jobid)s|%(check_job_nodelist)s|%(check_perfvalues)s",
                        "format_perfvars": "%(check_perf_value)s|%(check_perf_unit)s|"
                        "%(check_perf_ref)s|%(check_perf_lower_thres)s|%(check_perf_upper_thres)s|",
                        "append": True,
                    }
                ],
            }
        ],
        "storage": [{"enable": True, "sqlite_db_file": str(results)}],
    }
