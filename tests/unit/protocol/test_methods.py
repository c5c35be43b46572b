"""The table of methods is consistent with what serves it."""

from __future__ import annotations

from paddock.protocol.methods import METHODS, NOTIFICATIONS, OPTIONAL_NOTIFICATIONS, Family
from paddock.server.handlers import Handlers


def test_every_offered_method_has_a_handler_and_no_other_has() -> None:
    offered = {name for name, method in METHODS.items() if method.result is not None}

    whole = Handlers()
    whole.load_all()
    assert set(whole) == offered
    assert all(Handlers()[name] is handler for name, handler in whole.items())


def test_extension_fields_exist_and_come_last() -> None:
    for method in METHODS.values():
        fields = method.params.__struct_fields__
        extensions = method.params.EXTENSIONS
        assert extensions <= set(fields), method.name
        assert all(name in extensions for name in fields[len(fields) - len(extensions) :]), method.name


def test_what_is_for_operators_is_an_extension_with_a_family_of_its_own() -> None:
    for method in METHODS.values():
        is_control = method.name.startswith("control/")
        assert method.is_operators == is_control == (method.family is Family.CONTROL), method.name
        assert method.is_extension or not is_control


def test_notifications_are_of_one_kind_or_the_other() -> None:
    assert not NOTIFICATIONS.keys() & OPTIONAL_NOTIFICATIONS.keys()
