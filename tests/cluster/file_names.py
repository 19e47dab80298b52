"""Whether a history of names has an explanation: an order of its operations, each at one moment between its call and its answer, in which a
model of a few directories gives the same answers.

A state is the set of all names: (directory, name, inode, whether that is a directory). An operation is a dictionary: what it does (`do`), in
which directory (`at`: inode number and name; `to` of a rename), `begins` and `ends`, and its outcome: `is` is "ok", the name of an errno, or
nothing where it can't be told. Inode numbers are never used again, so they say which file was found. Who made a directory does not hear its
number: it is a symbol until somebody finds it.
"""

import itertools

# More combinations of what was not answered are not tried.
MOST_STATES = 300_000
# Failures by which the kernel ends what it looks up several times: they say nothing of one moment.
OF_NO_MOMENT = {"ESTALE", "ELOOP"}
GONE = {"ENOENT"}


class TooMany(Exception):
    """So much was not answered that the search has no end."""


class Model:
    def __init__(self, roots):
        self.roots = frozenset(roots)

    def is_there(self, state, directory):
        return directory in self.roots or any(child == directory for _, _, child, _ in state)

    def after(self, one, state):
        """States after an operation that ends as it did; none if it can't."""
        outcome = one.get("is") or "ok"
        if outcome in OF_NO_MOMENT or (one["do"] == "rename" and outcome not in ("ok", "ENOENT")):
            return [state]
        if outcome == "ENOENT" and self.may_be_taken_for_dead(one):
            return [state]
        return getattr(self, one["do"])(one, state, outcome)

    def may_be_taken_for_dead(self, one):
        """A kernel that removes or replaces a name takes what it had found there for dead, although another mount may have moved that away in
        between. In directories that are made and moved "not there" may be its own answer."""
        return any(place[0] not in self.roots for place in (one["at"], one.get("to", one["at"])))

    def make(self, one, state, outcome, is_directory):
        directory, name = one["at"]
        if not self.is_there(state, directory):
            return [state] if outcome in GONE else []
        if found(state, directory, name):
            return [state] if outcome == "EEXIST" else []
        child = one.get("ino") or f"made by {one['number']}"
        return [state | {(directory, name, child, is_directory)}] if outcome == "ok" else []

    def create(self, one, state, outcome):
        return self.make(one, state, outcome, False)

    def mkdir(self, one, state, outcome):
        return self.make(one, state, outcome, True)

    def link(self, one, state, outcome):
        """Of an inode that was looked up before. One that has lost its last name since may get one, as if the link had been made before that. A
        kernel refuses it by itself for what it takes for replaced (`may_be_taken_for_dead`)."""
        return [state] if outcome in GONE else self.make(one, state, outcome, False)

    def unlink(self, one, state, outcome):
        return self.remove(one, state, outcome, False)

    def rmdir(self, one, state, outcome):
        return self.remove(one, state, outcome, True)

    def remove(self, one, state, outcome, is_directory):
        entry = found(state, *one["at"])
        if not entry:
            return [state] if outcome in GONE else []
        if entry[3] != is_directory:
            return [state] if outcome == ("ENOTDIR" if is_directory else "EISDIR") else []
        if is_directory and any(parent == entry[2] for parent, _, _, _ in state):
            return [state] if outcome == "ENOTEMPTY" else []
        return [state - {entry}] if outcome == "ok" else []

    def rename(self, one, state, outcome):
        source, target = found(state, *one["at"]), found(state, *one["to"])
        if outcome == "ok" and one.get("has_twin") and target and (not source or target[2] != source[2]):
            # The kernel may have found the file under both names, one after the other: it asks for nothing then.
            return [state, *self.moved(one, state, source, target)]
        if not source or not self.is_there(state, one["to"][0]):
            return [state] if outcome in GONE else []
        return self.moved(one, state, source, target) if outcome == "ok" else []

    def moved(self, one, state, source, target):
        if not source:
            return []
        if target and target[2] == source[2]:
            return [state]
        if self.is_below(state, one["to"][0], source[2]):
            return []
        if target and (target[3] != source[3] or any(parent == target[2] for parent, _, _, _ in state)):
            return []
        return [state - {source, target} | {(*one["to"], *source[2:])}]

    def is_below(self, state, directory, other):
        """Whether a directory is another one, or in it."""
        while directory != other:
            above = [parent for parent, _, child, _ in state if child == directory]
            if not above:
                return False
            directory = above[0]
        return True

    def stat(self, one, state, outcome):
        entry = found(state, *one["at"])
        if outcome != "ok":
            return [state] if outcome in GONE and not entry else []
        return known(state, entry, one["ino"], one["is_directory"]) if entry else []

    def list(self, one, state, outcome):
        directory, listed = one["at"][0], one.get("listed", {})
        if not self.is_there(state, directory):
            return [state] if outcome in GONE or not listed else []
        entries = [entry for entry in state if entry[0] == directory]
        if outcome != "ok" or {entry[1] for entry in entries} != set(listed):
            return []
        states = [state]
        for entry in entries:
            states = [later for one in states for later in known(one, entry, *listed[entry[1]])]
        return states


def found(state, directory, name):
    return next((entry for entry in state if entry[0] == directory and entry[1] == name), None)


def known(state, entry, ino, is_directory):
    """States in which an entry is this inode."""
    child = entry[2]
    if entry[3] != is_directory or (child != ino and not isinstance(child, str)):
        return []
    if child == ino:
        return [state]
    if any(other == ino for _, _, other, _ in state):
        return []
    replaced = lambda one: ino if one == child else one
    return [frozenset((replaced(parent), name, replaced(inode), kind) for parent, name, inode, kind in state)]


def is_silent(one):
    """Whether it surely changed nothing: then it is best explained as soon as it can be."""
    outcome = one.get("is")
    return bool(outcome) and (outcome != "ok" or one["do"] in ("stat", "list"))


class Search:
    """All that may be true so far: a state, and which operations without an answer have had their effect in it."""

    def __init__(self, roots, operations):
        self.model, self.operations = Model(roots), operations
        self.pending = {}
        self.configurations = {(frozenset(), frozenset())}
        for number, one in enumerate(operations):
            one["number"] = number
        renames = [one for one in operations if one["do"] == "rename"]
        for one, other in itertools.combinations(renames, 2):
            if (one["at"], one["to"]) == (other["at"], other["to"]) and begins_before_end(one, other) and begins_before_end(other, one):
                one["has_twin"] = other["has_twin"] = True

    def run(self):
        """The operation that has no explanation, if there is one."""
        calls = [(one["begins"], 0, number) for number, one in enumerate(self.operations)]
        answers = [(one["ends"], 1, number) for number, one in enumerate(self.operations) if one.get("is")]
        for _, is_answer, number in sorted(calls + answers):
            if not is_answer:
                self.pending[number] = self.operations[number]
                self.configurations = {self.with_silent(*one) for one in self.configurations}
            elif not self.answer(number):
                return self.operations[number]
        return None

    def with_silent(self, state, taken):
        """What changes nothing and is true now, is explained now."""
        explained = {
            number
            for number, one in self.pending.items()
            if number not in taken and is_silent(one) and self.model.after(one, state) == [state]
        }
        return state, taken | explained

    def answer(self, number):
        seen, stack, after = set(self.configurations), list(self.configurations), set()
        while stack:
            state, taken = stack.pop()
            if number in taken:
                after.add((state, taken - {number}))
                continue
            for other, one in self.pending.items():
                if other in taken:
                    continue
                for later in self.model.after(one, state):
                    configuration = self.with_silent(later, taken | {other})
                    if configuration not in seen:
                        seen.add(configuration)
                        stack.append(configuration)
            if len(seen) > MOST_STATES:
                raise TooMany
        del self.pending[number]
        if after:
            self.configurations = after
        return bool(after)


def begins_before_end(one, other):
    return not other.get("is") or one["begins"] < other["ends"]


def judge(roots, operations):
    """What is wrong with a history of names, if something is."""
    search = Search(roots, operations)
    try:
        unexplained = search.run()
    except TooMany:
        return "too much was not answered: no explanation was looked for"
    if unexplained is None:
        return None
    states = [sorted(state, key=str) for state, _ in itertools.islice(search.configurations, 3)]
    under_way = [one for one in search.pending.values() if one is not unexplained]
    return f"no explanation of {unexplained}; it may have been {states} before it, with these under way: {under_way}"
