"""The edits of a person."""

from __future__ import annotations

from tests.attribution import code_lines as code
from tests.attribution.project import PERSON, Line, is_start, lines_of
from tests.attribution.repository import GeneratedRepository, OperationImpossible


class PersonEdits(GeneratedRepository):
    """A repository that a person edits."""

    def person_adds_lines(self) -> None:
        self._person_adds(self.choose_path())

    def person_adds_function(self) -> None:
        path = self.choose_path()
        _, end = self.choose_function(path, 0)
        new = ["", "", *self.new_function(path)]
        self.project.files[path][end:end] = lines_of(new, PERSON)

    def person_changes_lines(self) -> None:
        path = self.choose_path()
        start, end = self.choose_function(path)
        lines = self.project.files[path]
        for index in range(start, end):
            if (
                self.random.random() < 0.25
                and lines[index].text.strip()
                and not is_start(lines[index].text)
            ):
                text = code.changed_line(self.random, lines[index].text)
                lines[index] = Line(text, frozenset({PERSON}))

    def person_deletes_lines(self) -> None:
        path = self.choose_path()
        start, end = self.choose_function(path, 4)
        place = self.random.randrange(start + 1, end - 1)
        stop = place + self.random.randrange(1, 3)
        self._note_deleted(path, place, stop)
        del self.project.files[path][place:stop]

    def _note_deleted(self, path: str, start: int, end: int) -> None:
        """Note lines of the current commit that are deleted, if they are not trivial."""
        lines = self.project.files[path][start:end]
        committed = {id(line) for line in self.committed.get(path, ())}
        self.deleted.setdefault(path, []).extend(
            line.text for line in lines if id(line) in committed and len(line.text.strip()) > 12
        )

    def person_adds_trivial_lines(self) -> None:
        path = self.choose_path()
        start, end = self.choose_function(path)
        place = self.random.randrange(start + 1, end + 1)
        text = self.random.choice(
            ["    return None", "    pass", "    return False"]
            if path.endswith(".py")
            else ["  return null;", "  {", "  }"]
        )
        self.project.files[path].insert(place, Line(text, frozenset({PERSON})))

    def person_copies_lines(self) -> None:
        """A person types lines that an agent wrote elsewhere, in a commit of its own.

        If the same commit removed the original, nothing would tell a copy from a move.
        """
        self.commit("Work")
        source = self.choose_path()
        target = self.choose_path(source[-3:])
        start, end = self.choose_function(source)
        first = self.random.randrange(start + 1, end)
        last = min(first + self.random.randrange(1, 5), end)
        texts = [line.text for line in self.project.files[source][first:last] if line.text.strip()]
        start, end = self.choose_function(target)
        place = self.random.randrange(start + 1, end)
        self.project.files[target][place:place] = lines_of(texts, PERSON)
        self.commit("Copy lines")

    def person_copies_function(self) -> None:
        self.commit("Work")
        source = self.choose_path()
        target = self.choose_path(source[-3:])
        start, end = self.choose_function(source)
        texts = [line.text for line in self.project.files[source][start:end]]
        name = code.name(self.random)
        texts[0] = (
            f"def {name}(other):" if source.endswith(".py") else f"export function {name}() {{"
        )
        self.project.files[target] += lines_of(["", "", *texts], PERSON)
        self.commit("Copy a function")

    def person_moves_function(self) -> None:
        """A person moves a function to another place or file; its lines stay those of an agent."""
        source = self.choose_path()
        if len(self.project.functions(source)) < 2:
            raise OperationImpossible
        target = self.choose_path(source[-3:])
        start, end = self.choose_function(source)
        moved = self.project.files[source][start:end]
        del self.project.files[source][start:end]
        blanks = lines_of(["", ""], PERSON)
        if self.random.random() < 0.5 or not self.project.functions(target):
            self.project.files[target] += [*blanks, *moved]
        else:
            place, _ = self.random.choice(self.project.functions(target))
            self.project.files[target][place:place] = [*moved, *blanks]

    def person_renames_file(self) -> None:
        path = self.choose_path()
        new = self.new_path(path[-3:])
        self.project.files[new] = self.project.files.pop(path)
        if self.allowed is not None:
            self.allowed.add(new)

    def person_indents(self) -> None:
        """A person puts lines into a condition, which only changes their indentation."""
        path = self.choose_path(".py")
        start, end = self.choose_function(path, 4)
        first = self.random.randrange(start + 1, end - 1)
        last = min(first + self.random.randrange(1, 4), end)
        lines = self.project.files[path]
        condition = Line(f"    if {self.random.choice(code.NOUNS)}_enabled:", frozenset({PERSON}))
        indented = [
            Line(f"    {line.text}" if line.text.strip() else "", line.writers)
            for line in lines[first:last]
        ]
        lines[first:last] = [condition, *indented]

    def person_retypes_line(self) -> None:
        """A person types a line again that was deleted in an earlier commit."""
        path = self.choose_path()
        present = {line.text for line in self.project.files[path]}
        texts = [text for text in self.deleted.get(path, ()) if text not in present]
        if not texts or path not in self.committed:
            raise OperationImpossible
        start, end = self.choose_function(path)
        line = Line(self.random.choice(texts), frozenset({PERSON}))
        self.project.files[path].insert(self.random.randrange(start + 1, end), line)
