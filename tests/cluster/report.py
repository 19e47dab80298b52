"""What a person reads in the end."""

HEAD = ("fault", "no write anywhere", "at serving nodes", "longest wait", "no read", "refused", "all serve after", "")
FORM = "{:58} {:>17} {:>16} {:>12} {:>8} {:>8} {:>15}  {}"


def row(verdict):
    seconds = [verdict.no_write, verdict.no_write_serving, verdict.longest_wait, verdict.no_read_serving]
    cells = [verdict.name, *(f"{second:.1f} s" for second in seconds)]
    return FORM.format(*cells, verdict.refused + verdict.full, f"{verdict.back:.1f} s", "WRONG" if verdict.wrong else "")


def print_fault(verdict):
    """A fault that is over."""
    print(row(verdict))
    for note in verdict.notes:
        print(f"    {note}")
    for wrong in verdict.wrong:
        print(f"    WRONG: {wrong}")
    checked = verdict.checked
    if checked.get("steps") and "failures" in checked:
        dead = f"; directories that a kernel took for removed: {checked['dead']}" if checked["dead"] else ""
        print(f"    {checked['steps']}; failed: {checked['failures'] or 'none'}{dead}", flush=True)
    elif "history" in checked:
        objects = f"{checked['keys']} + {checked['objects']} objects read at all nodes"
        print(f"    {checked['history']}; {objects}; {checked['steps']}", flush=True)


def print_head():
    print(FORM.format(*HEAD).rstrip())


def print_summary(verdicts):
    print("\nSummary. Seconds from the fault until all nodes served again; `serving` are the nodes that the fault leaves.\n")
    print_head()
    for verdict in verdicts:
        print(row(verdict).rstrip())
    failed = [verdict for verdict in verdicts if verdict.wrong]
    for verdict in failed:
        print(f"\n{verdict.name}:")
        for wrong in verdict.wrong:
            print(f"  WRONG: {wrong}")
    print(f"\n{len(verdicts)} faults, {len(failed)} with something wrong")


def print_counts(verdicts, seconds):
    """In the form of pytest's last line, which `cargo xtask check` counts."""
    failed = sum(bool(verdict.wrong) for verdict in verdicts)
    counts = [f"{failed} failed"] * bool(failed) + [f"{len(verdicts) - failed} passed"]
    print(f"{', '.join(counts)} in {seconds:.1f}s", flush=True)
