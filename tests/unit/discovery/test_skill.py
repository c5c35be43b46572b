"""What is understood of a skill's own words."""

from __future__ import annotations

import pytest

from paddock.discovery.files import TextFile
from paddock.discovery.root import SkillFiles
from paddock.discovery.skill import MAX_YAML_CHARACTERS, Dependencies, Policy, Tool, describe


def skill(front: str, metadata: str | None = None) -> SkillFiles:
    beside = TextFile(b"/s/one/agents/openai.yaml", metadata) if metadata is not None else None
    return SkillFiles(TextFile(b"/s/one/SKILL.md", f"---\n{front}\n---\nbody"), beside)


def test_name_and_descriptions_come_from_the_front_matter() -> None:
    found = describe(
        skill("name: '  a\n  b'\ndescription: >\n  folded\n  text\nmetadata:\n  short-description: short")
    )
    assert (found.name, found.description, found.short_description) == ("a b", "folded text", "short")


def test_a_skill_without_a_name_is_called_like_its_folder() -> None:
    assert describe(skill("description: d")).name == "one"


def test_a_colon_in_a_description_is_understood_though_it_is_not_yaml() -> None:
    found = describe(skill("name: n\ndescription: use it when: never"))
    assert (found.name, found.description) == ("n", "use it when: never")


def test_a_skill_that_would_grow_with_each_line_is_not_understood() -> None:
    lines = [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 60)]
    with pytest.raises(ValueError, match="not valid YAML"):
        describe(skill("description: d", "\n".join(["a0: &a0 {k: 1}", *lines])))


def test_blanks_behind_a_description_are_left_out_however_many_there_are() -> None:
    blanks = " " * (MAX_YAML_CHARACTERS // 2)
    assert describe(skill(f"description: use it: a{blanks}b{blanks[:9]}\t")).description == "use it: a b"


def test_tools_and_policy_come_from_the_file_beside() -> None:
    metadata = (
        "policy:\n  allow_implicit_invocation: false\ndependencies:\n  tools:\n    - {type: mcp, value: x}\n"
    )
    found = describe(skill("description: d", metadata))
    assert found.policy == Policy(allow_implicit_invocation=False)
    assert found.dependencies == Dependencies(tools=[Tool(type="mcp", value="x")])


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (SkillFiles(TextFile(b"/s/SKILL.md", "no front matter"), None), "front matter"),
        (skill("name: n"), "no description"),
        (skill("- a list"), "not a YAML mapping"),
        (skill("[" * 5000), "not valid YAML"),
        (skill("description: d", "policy: 5"), "policy are not understood"),
        (skill("description: d", "- x"), "not a YAML mapping"),
        (skill("description: d", "x: " + "y" * MAX_YAML_CHARACTERS), "more than"),
    ],
)
def test_a_skill_that_is_not_understood_says_why(files: SkillFiles, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        describe(files)
