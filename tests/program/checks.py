"""What the checks of the program share: counting, and the last line."""
passed = failed = 0


def check(name, ok, detail=""):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print(f"FAIL {name}: {detail}")
    return ok


def finish(name):
    """Prints the counts; the exit status."""
    print(f"{name}: {passed} passed, {failed} failed")
    return 1 if failed else 0
