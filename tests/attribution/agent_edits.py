"""The edits of scripted agents."""

from __future__ import annotations

from collections.abc import Sequence

from tests.attribution import code_lines as code
from tests.attribution.project import PERSON, Line, lines_of
from tests.attribution.repository import GeneratedRepository, OperationImpossible
from tests.attribution.transcripts import Agent, CodexAgent


class AgentEdits(GeneratedRepository):
    """A repository that agents edit."""

    def agent_creates(self) -> None:
        path = self.new_path(self.random.choice([".py", ".py", ".js"]))
        texts = (
            []
            if path.endswith(".js")
            else ["import logging", "", "logger = logging.getLogger(__name__)"]
        )
        for _ in range(self.random.randrange(1, 5)):
            texts += [*([""] * (2 if texts else 0)), *self.new_function(path)]
        text = "".join(f"{line}\n" for line in texts)
        call = self.agent().write(self.tick(), path, text, None)
        self.project.files[path] = lines_of(texts, call)
        if self.allowed is not None:
            self.allowed.add(path)

    def _replace(
        self, agent: Agent, path: str, start: int, end: int, new: Sequence[Line | str]
    ) -> None:
        """Let an agent replace lines. New lines are texts; kept ones are `Line` objects."""
        lines = self.project.files[path]
        first, last = self._context(path, start, end)
        before, after = lines[first:start], lines[end:last]
        texts = [line if isinstance(line, str) else line.text for line in new]
        old_text = "\n".join(line.text for line in lines[first:last])
        new_text = "\n".join([line.text for line in before] + texts + [line.text for line in after])
        call = agent.edit(self.tick(), path, old_text, new_text)
        lines[start:end] = _write_lines(new, call)

    def _context(self, path: str, start: int, end: int) -> tuple[int, int]:
        """Extend a range of lines until its text is unique in the file."""
        lines = [line.text for line in self.project.files[path]]
        text = "\n".join(["", *lines, ""])
        first, last = start, end
        while True:
            part = "\n".join(lines[first:last])
            if last > first and part.strip() and text.count(part) == 1:
                return first, last
            if first == 0 and last == len(lines):
                raise OperationImpossible
            if first > 0:
                first -= 1
            if last < len(lines) and (self.random.random() < 0.5 or first == 0):
                last += 1

    def agent_adds_function(self) -> None:
        path = self.choose_path()
        _, end = self.choose_function(path, 0)
        self._replace(self.agent(), path, end, end, ["", "", *self.new_function(path)])

    def agent_adds_lines(self) -> None:
        path = self.choose_path()
        start, end = self.choose_function(path)
        place = self.random.randrange(start + 1, end)
        self._replace(self.agent(), path, place, place, self.new_statement(path))

    def agent_changes_lines(self) -> None:
        path = self.choose_path()
        start, end = self.choose_function(path)
        place = self.random.randrange(start + 1, end)
        stop = min(place + self.random.randrange(1, 4), end)
        new = [
            code.changed_line(self.random, line.text) if line.text.strip() else line.text
            for line in self.project.files[path][place:stop]
        ]
        self._replace(self.agent(), path, place, stop, new)

    def agent_changes_a_word(self) -> None:
        path = self.choose_path()
        agent = self.random.choice([a for a in self.agents if not isinstance(a, CodexAgent)])
        text = self.project.text(path)
        lines = self.project.files[path]
        for _ in range(20):
            index = self.random.randrange(len(lines))
            words = [w for w in lines[index].text.split() if len(w) > 8 and text.count(w) == 1]
            if words:
                word = self.random.choice(words)
                new = f"{word[:4]}{self.random.choice(code.NOUNS)}{word[4:]}"
                call = agent.edit(self.tick(), path, word, new)
                lines[index] = Line(lines[index].text.replace(word, new), frozenset({call}))
                return
        raise OperationImpossible

    def agent_rewrites_function(self) -> None:
        path = self.choose_path()
        start, end = self.choose_function(path)
        new: list[Line | str] = []
        for line in self.project.files[path][start:end]:
            kind = self.random.random()
            if kind < 0.6:
                new.append(line)
            elif kind < 0.8 and line.text.strip():
                new.append(code.changed_line(self.random, line.text))
            elif kind < 0.9:
                new += [line, *self.new_statement(path)]
        self._replace(self.agent(), path, start, end, new)

    def agent_rewrites_file(self) -> None:
        """An agent writes a complete file, in which a person has changed lines just before."""
        path = self.choose_path()
        if self.random.random() < 0.5:
            self._person_adds(path)
        before = self.project.text(path)
        lines = list(self.project.files[path])
        functions = self.project.functions(path)
        if not functions:
            raise OperationImpossible
        _, end = self.random.choice(functions)
        added = ["", "", *self.new_function(path)]
        texts = [line.text for line in lines]
        texts[end:end] = added
        text = "".join(f"{line}\n" for line in texts)
        call = self.agent().write(self.tick(), path, text, before)
        lines[end:end] = lines_of(added, call)
        self.project.files[path] = lines

    def agent_appends(self) -> None:
        path = self.choose_path()
        added = ["", "", *self.new_function(path)]
        text = "".join(f"{line}\n" for line in added)
        call = self.agent().append(self.tick(), path, text)
        self.project.files[path] += lines_of(added, call)

    def agent_deletes_lines(self) -> None:
        path = self.choose_path()
        start, end = self.choose_function(path, 4)
        place = self.random.randrange(start + 1, end - 1)
        self._replace(self.agent(), path, place, place + 1, [])

    def agent_fails(self) -> None:
        """An edit fails or is denied; sometimes the person then writes the same lines."""
        path = self.choose_path()
        _, end = self.choose_function(path, 0)
        new = self.new_function(path)
        lines = self.project.files[path]
        old = "\n".join(line.text for line in lines[end - 2 : end])
        text = "\n".join([old, "", "", *new])
        self.agent().edit(self.tick(), path, old, text, fails=True)
        if self.random.random() < 0.4:
            lines[end:end] = lines_of(["", "", *new], PERSON)

    def agent_undoes(self) -> None:
        """An agent adds lines, removes them, and adds them again."""
        path = self.choose_path()
        start, end = self.choose_function(path)
        place = self.random.randrange(start + 1, end)
        added, agent = self.new_statement(path), self.agent()
        self._replace(agent, path, place, place, added)
        self._replace(agent, path, place, place + len(added), [])
        if self.random.random() < 0.7:
            self._replace(agent, path, place, place, added)

    def agent_moves_function(self) -> None:
        """An agent moves a function to another file with two edits, and so writes it again."""
        source = self.choose_path()
        target = self.choose_path(source[-3:])
        if len(self.project.functions(source)) < 2 or source == target:
            raise OperationImpossible
        start, end = self.choose_function(source)
        texts = [line.text for line in self.project.files[source][start:end]]
        _, place = self.choose_function(target, 0)
        agent = self.agent()
        self._replace(agent, target, place, place, ["", "", *texts])
        self._replace(agent, source, start, end, [])


def _write_lines(new: Sequence[Line | str], call: str) -> list[Line]:
    """Return the lines of an edit. A text is new, and a `Line` is kept.

    If a new line equals a kept one, either may be the kept one: both have the writers of both.
    """
    texts = {line for line in new if isinstance(line, str)}
    kept: dict[str, frozenset[str]] = {}
    for line in new:
        if isinstance(line, Line) and line.text in texts:
            kept[line.text] = kept.get(line.text, frozenset({call})) | line.writers
    written: list[Line] = []
    for line in new:
        text = line if isinstance(line, str) else line.text
        if text in kept:
            written.append(Line(text, kept[text]))
        else:
            written.append(Line(text, frozenset({call})) if isinstance(line, str) else line)
    return written
