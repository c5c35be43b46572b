"""The assembler: what it makes is what its conditions say, for every call there can be."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.sandbox.plan import bpf
from paddock.sandbox.plan.bpf import Condition, Notice, Refusal, Word
from tests.unit.sandbox.bpf_machine import WORD, Call, run

ARCHITECTURE = 0xC000003E

# Few of each, so that calls often fit and nearly fit.
numbers = st.integers(0, 4)
values = st.sampled_from([0, 1, 2, 3, 0x10000000, WORD])
masks = st.sampled_from([WORD, 0xF, 0x10000000, 0])
words = st.builds(Word, st.integers(0, 5), st.booleans())
conditions = st.builds(
    Condition, words, st.lists(values, min_size=1, max_size=4).map(tuple), masks, is_negated=st.booleans()
)
several = st.lists(conditions, max_size=3).map(tuple)
cases = st.builds(Refusal, numbers, st.integers(1, 133), several) | st.builds(Notice, numbers, several)
arguments = st.tuples(*[st.builds(lambda low, high: high << 32 | low, values, values)] * 6)


def holds(condition: Condition, call: Call) -> bool:
    argument = call.arguments[condition.word.argument]
    word = argument >> 32 if condition.word.is_high else argument & WORD
    return ((word & condition.mask) in condition.values) != condition.is_negated


def expected(rules: list[Refusal | Notice], call: Call) -> int:
    for rule in rules:
        if rule.number == call.number and all(holds(condition, call) for condition in rule.conditions):
            return bpf.RETURN_ERRNO | rule.errno if isinstance(rule, Refusal) else bpf.RETURN_NOTIFY
    return bpf.RETURN_ALLOW


@given(st.lists(cases, max_size=6), numbers, arguments)
def test_the_first_case_whose_conditions_all_hold_decides(
    rules: list[Refusal | Notice], number: int, given_arguments: tuple[int, ...]
) -> None:
    call = Call(ARCHITECTURE, number, given_arguments)
    assert run(bpf.assemble(ARCHITECTURE, rules), call) == expected(rules, call)


@given(conditions, arguments)
def test_conditions_hold_outside_the_kernel_as_inside(
    condition: Condition, given_arguments: tuple[int, ...]
) -> None:
    assert condition.holds(given_arguments) is holds(condition, Call(ARCHITECTURE, 0, given_arguments))


@given(st.integers(0, WORD).filter(lambda value: value != ARCHITECTURE), st.integers(0, WORD))
def test_a_call_of_another_architecture_kills_whatever_its_number(architecture: int, number: int) -> None:
    program = bpf.assemble(ARCHITECTURE, [], foreign_abi_bit=0x40000000)
    assert run(program, Call(architecture, number)) == bpf.RETURN_KILL_PROCESS


@given(st.integers(0, WORD))
def test_numbers_of_a_second_abi_are_answered_as_if_the_kernel_did_not_have_it(number: int) -> None:
    program = bpf.assemble(ARCHITECTURE, [], foreign_abi_bit=0x40000000)
    is_foreign = bool(number & 0x40000000)
    verdict = bpf.RETURN_ERRNO | errno.ENOSYS if is_foreign else bpf.RETURN_ALLOW
    assert run(program, Call(ARCHITECTURE, number)) == verdict


def test_a_program_that_the_kernel_would_not_take_is_refused_here() -> None:
    with pytest.raises(ValueError, match="the kernel takes 4096"):
        bpf.assemble(ARCHITECTURE, [Refusal(number, 1) for number in range(2048)])


def test_a_jump_that_does_not_fit_its_byte_is_refused() -> None:
    far = Condition(Word(0), tuple(range(300)))
    with pytest.raises(ValueError, match="the kernel allows 255"):
        bpf.assemble(ARCHITECTURE, [Refusal(1, 1, (far,))])


def test_a_condition_without_values_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a value"):
        Condition(Word(0), ())
