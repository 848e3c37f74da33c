"""Eight words as one value: 512 bits that a processor with such registers takes at once.

In kernels, a wide value is loaded from eight int64 in a row, combined with &, |, ^ and ~, and stored again.
And 64 int32 in a row, one for each bit of a word, are compared, set or copied at once. LLVM splits both where
registers are narrower, so results are the same everywhere. Rows of words that are loaded so begin at the line
of a cache (`rows`). Never: outside a kernel.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

#: Words in a wide value.
WORDS = 8
#: Numbers of 32 bits that are compared at once, one for each bit of a word.
NUMBERS = 64
#: Words of which those that have a bit are chosen at once.
CHOICES = 16

Wide = Any

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, WORDS)
_INDEX = ir.IntType(32)
_NUMBERS = ir.VectorType(_INDEX, NUMBERS)


def _instruction(function: Callable[..., Any]) -> Any:
    """What a kernel can call and LLVM makes an instruction or a few of."""
    made: Any = intrinsic(function)
    return made


class WideType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="wide")


_WIDE = WideType()


@register_model(WideType)
class _WideModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _at(context: Any, builder: Any, kind: Any, array: Any, place: Any) -> Any:
    """A pointer to the eight words from `place` on."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), _VECTOR.as_pointer())


def _all(builder: Any, vector: Any, value: Any) -> Any:
    """A vector that holds nothing but this value."""
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_INDEX, vector.count), None))


@_instruction
def load(typing: Any, words: Any, place: Any) -> Any:
    """The eight words from words[place] on. words: int64, contiguous"""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.load(_at(context, builder, signature.args[0], *given), align=8)

    return _WIDE(words, types.uint64), generate


@_instruction
def prefetch(typing: Any, words: Any, place: Any) -> Any:
    """Lets the processor fetch the line of words[place] while it does something else; never an error."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        line = builder.bitcast(_at(context, builder, signature.args[0], *given), pointer)
        builder.call(function, [line, *(ir.Constant(number, value) for value in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(words, types.uint64), generate


@_instruction
def store(typing: Any, words: Any, place: Any, value: Any) -> Any:
    """Makes the eight words from words[place] on those of the value."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        array, place, value = given
        builder.store(value, _at(context, builder, signature.args[0], array, place), align=8)
        return context.get_dummy_value()

    return types.void(words, types.uint64, _WIDE), generate


@_instruction
def filled(typing: Any, value: Any) -> Any:
    """Which of the eight words are not 0, as bits."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        bits = builder.icmp_unsigned("!=", given[0], ir.Constant(_VECTOR, None))
        return builder.zext(builder.bitcast(bits, ir.IntType(WORDS)), _WORD)

    return types.int64(_WIDE), generate


@_instruction
def below(typing: Any, value: Any, limit: Any) -> Any:
    """How many of the eight words are less than a number, counted from the first until one is not."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        less = builder.icmp_signed("<", given[0], _all(builder, _VECTOR, given[1]))
        less = builder.bitcast(less, ir.IntType(WORDS))
        return builder.cttz(builder.not_(builder.zext(less, _WORD)), ir.Constant(ir.IntType(1), 1))

    return types.int64(_WIDE, types.int64), generate


def _numbers(context: Any, builder: Any, kind: Any, array: Any, place: Any) -> Any:
    """A pointer to the 64 int32 from `place` on."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), _NUMBERS.as_pointer())


@_instruction
def differ(typing: Any, numbers: Any, one: Any, other: Any) -> Any:
    """Which of the 64 numbers from numbers[one] on are not those from numbers[other] on, as bits."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        pointers = (_numbers(context, builder, signature.args[0], given[0], place) for place in given[1:])
        bits = builder.icmp_signed("!=", *(builder.load(pointer, align=4) for pointer in pointers))
        return builder.bitcast(bits, _WORD)

    return types.int64(numbers, types.uint64, types.uint64), generate


@_instruction
def are(typing: Any, numbers: Any, place: Any, value: Any) -> Any:
    """Which of the 64 numbers from numbers[place] on are this one, as bits."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        pointer = _numbers(context, builder, signature.args[0], *given[:2])
        bits = builder.icmp_signed("==", builder.load(pointer, align=4), _all(builder, _NUMBERS, given[2]))
        return builder.bitcast(bits, _WORD)

    return types.int64(numbers, types.uint64, types.int32), generate


@_instruction
def spread(typing: Any, numbers: Any, place: Any, value: Any) -> Any:
    """Makes the 64 numbers from numbers[place] on this one."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        pointer = _numbers(context, builder, signature.args[0], *given[:2])
        builder.store(_all(builder, _NUMBERS, given[2]), pointer, align=4)
        return context.get_dummy_value()

    return types.void(numbers, types.uint64, types.int32), generate


@_instruction
def copy(typing: Any, numbers: Any, source: Any, target: Any, bits: Any) -> Any:
    """Makes those of the 64 numbers from numbers[target] on whose bits are set the same as those from
    numbers[source] on.
    """

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        array, source, target, bits = given
        old, new = (_numbers(context, builder, signature.args[0], array, place) for place in (target, source))
        chosen = builder.bitcast(bits, ir.VectorType(ir.IntType(1), NUMBERS))
        mixed = builder.select(chosen, builder.load(new, align=4), builder.load(old, align=4))
        builder.store(mixed, old, align=4)
        return context.get_dummy_value()

    return types.void(numbers, types.uint64, types.uint64, types.int64), generate


@_instruction
def choose(
    typing: Any, words: Any, at: Any, bit: Any, places: Any, table: Any, chosen: Any, flags: Any, to: Any
) -> Any:
    """Of 16 words from words[at] on, those that have a bit: flags[to:] become 1 for these and 0 for others,
    chosen[to:] become the table's numbers at the places from places[at] on, and 0 for others.

    words: int64; places, table, chosen: int32; flags: uint8
    """

    flagged, bits, few, many, pointers = (
        ir.VectorType(kind, CHOICES)
        for kind in (ir.IntType(8), ir.IntType(1), _INDEX, _WORD, _INDEX.as_pointer())
    )

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        def data(argument: int) -> Any:
            return context.make_array(signature.args[argument])(context, builder, given[argument]).data

        def pointer(argument: int, place: Any, kind: Any) -> Any:
            return builder.bitcast(builder.gep(data(argument), [place]), kind.as_pointer())

        at, to = given[1], given[7]
        wanted = _all(builder, many, builder.shl(ir.Constant(_WORD, 1), given[2]))
        some = builder.and_(builder.load(pointer(0, at, many), align=8), wanted)
        has = builder.icmp_unsigned("!=", some, ir.Constant(many, None))
        builder.store(builder.zext(has, flagged), pointer(6, to, flagged), align=1)
        places = builder.zext(builder.load(pointer(3, at, few), align=4), many)
        bytes_each = ir.Constant(many, [4] * CHOICES)
        table = _all(builder, many, builder.ptrtoint(data(4), _WORD))
        address = builder.inttoptr(builder.add(table, builder.mul(places, bytes_each)), pointers)
        kind = ir.FunctionType(few, [pointers, _INDEX, bits, few])
        gather = get_or_insert_function(
            builder.module, kind, f"llvm.masked.gather.v{CHOICES}i32.v{CHOICES}p0"
        )
        found = builder.call(gather, [address, ir.Constant(_INDEX, 4), has, ir.Constant(few, None)])
        builder.store(found, pointer(5, to, few), align=4)
        return context.get_dummy_value()

    place = types.uint64
    return types.void(words, place, types.int64, places, table, chosen, flags, place), generate


class _OfTwo(ConcreteTemplate):
    cases = (signature(_WIDE, _WIDE, _WIDE),)


class _OfOne(ConcreteTemplate):
    cases = (signature(_WIDE, _WIDE),)


def _register(operation: Callable[..., Any], template: Any, name: str) -> None:
    """Lets kernels use an operator of Python on wide values: one instruction of LLVM."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return getattr(builder, name)(*given)

    infer_global(operation)(template)
    lower_builtin(operation, *template.cases[0].args)(generate)


_register(operator.and_, _OfTwo, "and_")
_register(operator.iand, _OfTwo, "and_")
_register(operator.or_, _OfTwo, "or_")
_register(operator.ior, _OfTwo, "or_")
_register(operator.xor, _OfTwo, "xor")
_register(operator.ixor, _OfTwo, "xor")
_register(operator.invert, _OfOne, "not_")
