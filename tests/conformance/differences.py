"""Every difference between upstream's server and ours that is meant. docs/compatibility.md explains each, under the
same key.

`at` says where the replay of a trace shows it: trace -> patterns (fnmatch) of what `Replay.run` reports. A pattern that
nothing matches any more is a fault too. `tests` names tests that show it otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Difference:
    key: str
    at: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tests: tuple[str, ...] = ()


HERE = "tests/conformance/"
HTTP = "tests/exec_server/wire/test_http.py::"
INSIDE = "tests/exec_server/wire/test_sandbox.py::"
ADMISSION = "tests/transport/admission/"
SERVER = "tests/exec_server/server/"
FILES = "tests/exec_server/wire/"
ENVIRONMENT = ("#* environment.capabilities", "#* environment.prependPathDirs")

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "positional-params",
        {
            "framing/params-array": ("#3 error",),
            "misc/positional": ("#* message", "#18 code"),
            "shape/open": ("#3 code",),
            "shape/watch": ("#4 message",),
            "misc/fsopen": ("#33 code", "#35 code"),
            "fs/watchMissing": ("#9 error",),
        },
    ),
    Difference("write-without-id", {"framing/invalid-b64": ("#9 result",)}),
    Difference("native-cwd", {"start/types": ("#13 result",)}),
    Difference(
        "bounded-lengths",
        {"start/types": ("#59 error",)},
        (HERE[:6] + "protocol/test_lengths.py::test_what_is_too_long_is_refused",),
    ),
    Difference("native-path", {"fs/all": ("#16 *",)}),
    Difference("path-in-texts", tests=(FILES + "test_files.py::test_paths_that_lead_nowhere",)),
    Difference("replace-at-once", tests=(FILES + "test_files.py::test_an_existing_file_is_replaced_at_once",)),
    Difference("copy-onto-itself", tests=(FILES + "test_file_trees.py::test_a_file_copied_onto_itself",)),
    Difference("entry-paths", tests=(FILES + "test_file_trees.py::test_entries_can_be_addressed",)),
    Difference("large-files", tests=(FILES + "test_files.py::test_what_is_too_large_is_not_read",)),
    Difference(
        "special-files",
        tests=(FILES + "test_files.py::test_what_is_no_file_is_refused_and_never_waited_for",),
    ),
    Difference("remove-root", tests=(FILES + "test_files.py::test_what_remove_refuses",)),
    Difference("file-order", tests=(FILES + "test_file_handles.py::test_requests_on_a_handle_keep_their_order",)),
    Difference(
        "terminal-cwd",
        {"start/tty-notfound": ("#8 error", "#9 result"), "output/sig": ("#5 error", "#6 data.kind", "#6 message")},
    ),
    Difference("terminal-program", {"start/tty-notfound": ("#4 data.kind",)}),
    Difference(
        "terminal-exit-code",
        {
            "output/sig": ("sig-kill-tty exitCode", "sig-term-tty exitCode"),
            "write/basic": ("pty2 exitCode", "ptysig exitCode"),
            "terminate/basic": ("gc1 exitCode", "ttytrap exitCode", "#17 result.exitCode"),
        },
    ),
    Difference(
        "truthful-stdin",
        {
            "write/basic": (
                "#12 result.status",
                "#15 result.status",
                "#16 result.status",
                "#17 result.status",
            ),
            "write/after": ("#[4578] result.status",),
        },
    ),
    Difference(
        "capabilities",
        {
            "basic": ENVIRONMENT,
            "hs/after-init-empty": ENVIRONMENT,
            "misc/envinfo": ENVIRONMENT,
            "misc/sandbox": ENVIRONMENT,
            "shape/sandbox": ENVIRONMENT,
        },
    ),
    Difference(
        "discovered-skills",
        tests=(
            FILES + "test_capabilities.py::test_skills_of_the_user",
            FILES + "test_capabilities.py::test_what_cannot_be_used_is_told",
        ),
    ),
    Difference("tool-directory", {"start/env": ("pol-* stdout",)}),
    Difference("parent-death-signal", {"start/env": ("attrs-pipe stdout", "attrs-pipestdin stdout")}),
    Difference("network-proxy", {"shape/exec-extra": ("#9 result",)}),
    Difference("http-concurrency", tests=(HTTP + "test_slow_servers_hold_up_nobody",)),
    Difference("http-body-limit", tests=(HTTP + "test_bodies_that_are_too_large",)),
    Difference("http-error-texts", tests=(HTTP + "test_servers_that_do_wrong",)),
    Difference("http-private-variables", tests=(HTTP + "test_values_and_proxies_from_the_environment",)),
    Difference("pipelining", tests=(HERE + "test_bursts.py::test_a_burst_is_answered_whole",)),
    Difference("waits", tests=(HERE + "test_bursts.py::test_a_wait_holds_up_nothing",)),
    Difference("writes-in-order", tests=(HERE + "test_bursts.py::test_pipelined_writes_stay_in_order",)),
    Difference("blocked-write", tests=(HERE + "test_bursts.py::test_a_blocked_write_holds_up_nothing",)),
    Difference("events-in-order", tests=(HERE + "test_bursts.py::test_events_come_in_order_behind_their_start",)),
    Difference("chunk-size", tests=(HERE + "test_documented.py::test_chunks_are_larger",)),
    Difference("descendants", tests=(HERE + "test_documented.py::test_terminate_ends_descendants_in_other_sessions",)),
    Difference("terminate-after-exit", tests=(HERE + "test_documented.py::test_terminate_after_exit_brings_the_end",)),
    Difference("background-jobs", tests=(HERE + "test_documented.py::test_background_jobs_outlive_the_record",)),
    Difference("evicted-bytes", tests=(HERE + "test_documented.py::test_evicted_output_is_counted",)),
    Difference(
        "sandbox-type",
        {"shape/sandbox": tuple(f"#{number} result.sandboxType" for number in (4, 5, 6, 7, 11, 12))},
        tests=(HERE + "test_documented.py::test_the_type_of_a_sandbox",),
    ),
    Difference("sandbox-entries", tests=(INSIDE + "test_what_cannot_be_enforced_is_refused",)),
    Difference(
        "sandbox-failures",
        {"shape/sandbox": ("#10 error",)},
        tests=(INSIDE + "test_failures_to_start_say_what_was_wrong",),
    ),
    Difference("sandbox-kernel", tests=(INSIDE + "test_the_kernel_is_out_of_reach",)),
    Difference("signal-names", tests=(HERE + "test_documented.py::test_signals_by_their_names",)),
    Difference("half-open-peers", tests=(HERE + "test_sessions.py::test_a_peer_that_is_gone_does_not_hold_a_session",)),
    Difference(
        "frame-size", tests=("tests/transport/test_websocket.py::test_largest_message_in_one_frame_and_in_many",)
    ),
    Difference("close-frames", tests=(HERE + "test_framing.py::test_what_ends_the_connection",)),
    Difference("stdio-violation", tests=(HERE + "test_program.py::test_a_violation_ends_the_stdio_program",)),
    Difference("stdio-end-of-input", tests=(HERE + "test_program.py::test_the_end_of_input_loses_no_answer",)),
    Difference("listen-default", tests=(HERE + "test_program.py::test_stdio_is_the_default",)),
    Difference("listeners-without-auth", tests=(HERE + "test_program.py::test_listen_urls_that_are_refused",)),
    Difference("host-header", tests=(ADMISSION + "test_rules.py::test_names_that_were_pointed_at_us",)),
    Difference("other-users", tests=(ADMISSION + "test_rules.py::test_another_user_of_the_machine",)),
    Difference("slow-refusals", tests=(ADMISSION + "test_auth.py::test_the_right_token_is_not_slowed_by_others",)),
    Difference("server-limits", tests=(SERVER + "test_limits.py::test_processes_of_all_sessions",)),
    Difference("initialize-timeout", tests=(SERVER + "test_limits.py::test_time_to_initialize",)),
    Difference("health", tests=(SERVER + "test_metrics.py::test_health",)),
    Difference("drain", tests=(SERVER + "test_shutdown.py::test_what_takes_longer_is_asked_then_forced",)),
    Difference("hangup", tests=(HERE + "test_program.py::test_a_hangup_ends_nothing",)),
    Difference("server-death", tests=(HERE + "test_program.py::test_signals_to_the_server",)),
    Difference("seed-malformed", tests=(HERE + "test_generations.py::test_seed_client_survives_a_malformed_message",)),
    Difference(
        "seed-unknown-method", tests=(HERE + "test_generations.py::test_seed_era_is_decided_by_the_first_start",)
    ),
    Difference("seed-retention", tests=(HERE + "test_generations.py::test_seed_record_outlives_the_exit",)),
    Difference("seed-second-state", tests=(HERE + "test_generations.py::test_seed_second_state",)),
    Difference("seed-seqs", tests=(HERE + "test_generations.py::test_seed_notifications",)),
    Difference("seed-exit-code", tests=(HERE + "test_generations.py::test_seed_exit_by_signal",)),
)

UNSTEADY: dict[str, tuple[str, ...]] = {
    # The child is killed right after a write: whether it has echoed it by then is a race.
    "write/after": ("im stdout",),
}
"""What differs from run to run, here as there."""
