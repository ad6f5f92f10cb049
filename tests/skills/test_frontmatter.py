"""A SKILL.md becomes a value; what is wrong with it is said in words."""

from pathlib import Path

import pytest

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.skills.discovery import SHIPPED, SkillFile, SkillReader, shipped_skills
from vibe_jupyter.skills.frontmatter import LONGEST_COMPATIBILITY, LONGEST_DESCRIPTION, LONGEST_NAME, read_skill
from vibe_jupyter.skills.section import skills_section
from vibe_jupyter.skills.skill import Skill, called_skill

TOKENS_OF_A_SHIPPED_SKILL = 25
CHARACTERS_PER_TOKEN = 4


def read(header: str, folder: str = "my-skill") -> Skill:
    """The skill of a frontmatter about which there is nothing to tell."""
    skill, warnings = read_skill(f"---\n{header}\n---\nDo it.".encode(), Path("/skills", folder, "SKILL.md"))
    assert warnings == ()
    return skill


def refusal(header: str) -> str:
    with pytest.raises(ConfigError) as raised:
        read(header)
    return str(raised.value)


def described(more: str) -> Skill:
    return read(f"name: my-skill\ndescription: Does it.\n{more}")


@pytest.mark.requirement("skills.format.frontmatter")
def test_frontmatter_is_a_yaml_mapping_with_name_and_description_between_lines_of_three_dashes_or_more() -> None:
    header = "name: my-skill\ndescription: >\n  Does\n  it."
    for dashes in ("---", "-----  "):
        skill, _ = read_skill(f"\n{dashes}\r\n{header}\n{dashes}\n\n# Do\n---\nit".encode(), Path("/my-skill/SKILL.md"))
        assert (skill.name, skill.description, skill.body) == ("my-skill", "Does it.", "# Do\n---\nit")
    for text in ("name: my-skill", "--\nname: my-skill\n--\n", "Words.\n---\nname: my-skill\n---\n", "---\nname: x\n"):
        with pytest.raises(ConfigError, match="three dashes"):
            read_skill(text.encode(), Path("/my-skill/SKILL.md"))
    assert "no YAML mapping" in refusal("- name\n- description")
    assert "no YAML mapping" in refusal("")
    assert refusal("description: Does it.") == "has no name"
    assert refusal("name: my-skill") == "has no description"


@pytest.mark.requirement("skills.format.comment")
def test_lines_of_a_comment_may_stand_above_the_frontmatter() -> None:
    content = "# ~/.vibe/skills/my-skill/SKILL.md\n\n---\nname: my-skill\ndescription: Does it.\n---\n\nDo it."
    skill, warnings = read_skill(content.encode(), Path("/my-skill/SKILL.md"))
    assert (skill.name, skill.body, warnings) == ("my-skill", "Do it.", ())


@pytest.mark.requirement("skills.name.pattern")
@pytest.mark.parametrize("name", ["a", "7", "my-skill", "a-1-b", "x" * LONGEST_NAME])
def test_a_name_has_1_to_64_small_letters_digits_and_single_inner_hyphens(name: str) -> None:
    assert read(f"name: {name}\ndescription: Does it.", name).name == name


@pytest.mark.requirement("skills.name.pattern")
@pytest.mark.parametrize("name", ["''", "My-Skill", "-a", "a-", "a--b", "a b", "a_b", "é", "x" * (LONGEST_NAME + 1)])
def test_another_name_is_refused(name: str) -> None:
    assert "name" in refusal(f"name: {name}\ndescription: Does it.")


@pytest.mark.requirement("skills.description.length")
def test_a_description_has_1_to_1_024_characters() -> None:
    longest = "d" * LONGEST_DESCRIPTION
    assert LONGEST_DESCRIPTION == 1_024
    assert read("name: my-skill\ndescription: d").description == "d"
    assert read(f"name: my-skill\ndescription: {longest}").description == longest
    assert "the limit is 1,024" in refusal(f"name: my-skill\ndescription: {longest}d")
    assert refusal("name: my-skill\ndescription: ''") == "has no description"


@pytest.mark.requirement("skills.compatibility.length")
def test_compatibility_and_license_are_optional_and_the_first_has_at_most_500_characters() -> None:
    longest = "c" * LONGEST_COMPATIBILITY
    assert LONGEST_COMPATIBILITY == 500
    assert (described("").license, described("").compatibility) == ("", "")
    skill = described(f"license: {'MIT ' * 500}\ncompatibility: {longest}")
    assert (len(skill.license), skill.compatibility) == (len("MIT " * 500) - 1, longest)
    assert "the limit is 500" in refusal(f"name: a\ndescription: d\ncompatibility: {longest}c")


@pytest.mark.requirement("skills.metadata.strings")
def test_metadata_is_a_mapping_of_strings_whatever_was_written() -> None:
    skill = described("metadata:\n  version: 1.10\n  2: true\n  day: 2026-11-23\n  team: [a, b]")
    assert skill.metadata == {"version": "1.10", "2": "true", "day": "2026-11-23", "team": "['a', 'b']"}
    assert refusal("name: a\ndescription: d\nmetadata: text") == "has metadata that is no mapping"


@pytest.mark.requirement("skills.allowed-tools.forms")
@pytest.mark.parametrize(
    "written", ["[read_file, grep]", "read_file grep", "\n  - read_file\n  - grep", "read_file, grep"]
)
def test_allowed_tools_are_a_list_or_names_with_blanks_between_them(written: str) -> None:
    assert described(f"allowed-tools: {written}").allowed_tools == ("read_file", "grep")


def test_a_name_with_a_restriction_in_brackets_stays_one_name() -> None:
    assert described("allowed-tools: Bash(git add:*) Read").allowed_tools == ("Bash(git add:*)", "Read")


def test_what_is_repeated_is_told_by_name_and_line_and_the_first_value_holds() -> None:
    text = "---\nname: my-skill\ndescription: Does it.\ndescription: MIT\n---\n"
    skill, warnings = read_skill(text.encode(), Path("/my-skill/SKILL.md"))
    assert skill.description == "Does it."
    assert warnings == ("has the key description more than once (line 4); the first one holds",)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("name: a\ndescription: &d [x]\nlicense: *d", "alias"),
        ("name: a\ndescription: " + "[" * 8_000, "nested too deeply"),
        ("name: a\ndescription: d\nuser-invocable: perhaps", "true or false"),
        ("name: a\ndescription: [d]", "no text"),
        ("name: a\ndescription: b: c", "not YAML"),
        ("name: a\ndescription: \x01", "not YAML"),
        ("name: a\ndescription: d\nallowed-tools: {a: b}", "allowed-tools"),
        ("name: a\nlicense: " + "d" * 20_000, "more than"),
    ],
)
def test_what_is_not_understood_is_refused_in_words(header: str, said: str) -> None:
    assert said in refusal(header)


def test_a_tag_of_python_makes_no_object() -> None:
    assert described("license: !!python/object/apply:os.getcwd words").license == "words"


def test_shipped_skills_are_found_without_yaml_and_say_what_yaml_reads_in_them() -> None:
    for skill in shipped_skills():
        assert read_skill(skill.path.read_bytes(), skill.path, "shipped") == (skill, ())
    assert [skill.name for skill in shipped_skills()] == [
        "explain-this-plot",
        "find-leakage",
        "notebook-to-script",
        "profile-a-dataset",
        "review-an-analysis",
        "tidy-notebook",
    ]


def test_a_shipped_skill_costs_every_request_at_most_25_tokens() -> None:
    skills = shipped_skills()
    several, one = (len(skills_section(some)) for some in (skills, skills[:1]))
    assert (several - one) / (len(skills) - 1) <= TOKENS_OF_A_SHIPPED_SKILL * CHARACTERS_PER_TOKEN


def test_no_skills_cost_nothing() -> None:
    assert skills_section([]) == ""


def test_a_skill_of_the_user_takes_the_place_of_a_shipped_one_without_a_problem() -> None:
    path = Path("/skills/find-leakage/SKILL.md")
    found = SkillReader().find([SkillFile(path, b"---\nname: find-leakage\ndescription: Mine.\n---\n", "user")])
    assert [skill.description for skill in found.skills if skill.name == "find-leakage"] == ["Mine."]
    assert found.problems == ()
    assert found.replaced == (
        f"{path} takes the place of the shipped skill find-leakage, {SHIPPED / 'find-leakage' / 'SKILL.md'}.",
    )


def test_the_longest_name_that_a_prompt_begins_with_is_called() -> None:
    skills = [Skill(name, "Does it.", Path(f"/{name}/SKILL.md"), "") for name in ("tidy", "tidy-notebook")]
    called = {
        "/tidy": "tidy",
        "/tidy up": "tidy",
        "\n /tidy notebook please": "tidy-notebook",
        "/Tidy-Notebook": "tidy-notebook",
    }
    assert {prompt: skill.name for prompt in called if (skill := called_skill(prompt, skills))} == called
    for prompt in ("tidy", "/tidying", "/ tidy", "//tidy", "/", "/tidy/up", "/server:tidy", "please /tidy"):
        assert called_skill(prompt, skills) is None
